package admission

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/names"
)

// All keys of this package:
//
//	key                               type     TTL                                         slot
//	<namespace>:w:{<subject>}:<id>    by the algorithm, see its file in lua/              {<subject>}
//	<namespace>:w:{<subject>}:<id>:b  STRING   base of a two-stage window, as fixed_window {<subject>}
//	<namespace>:w:{<subject>}:<id>:s  strikes of the window, as the sliding algorithms     {<subject>}
//	<namespace>:q:{<subject>}[:old]   HASH     answers to requests with an id, 2 minutes   {<subject>}
//	<namespace>:{bans}:…              the bans, see package bans                           {bans}
//
//	channel <namespace>:taken-back    subjects that were refunded or reset
//	channel <namespace>:{bans}        that something about bans has changed
//
// subject is a keyed hash of the counted identity: 22 characters, whatever a caller sends. It is the same in all rules that count the
// same subject, so that one script decides them in one slot. id names the rule and the window: 8 characters.

// A keyring builds keys. It is safe for concurrent use.
type keyring struct {
	namespace string
	hashes    *keyhash.Key
}

func newKeyring(namespace string, secret []byte) (*keyring, error) {
	if !names.Namespace(namespace) {
		return nil, fmt.Errorf("admission: Options.Namespace is %q, should be "+names.Length+" of A-Z a-z 0-9 . _ : -", namespace)
	}
	if len(secret) < keyhash.MinSecret {
		return nil, errors.New("admission: Options.Secret is too short, should be 16 or more random bytes")
	}
	return &keyring{namespace: namespace, hashes: keyhash.New(keyhash.Derive(secret, "tidegate admission"))}, nil
}

// subject returns the keyed hash of names and values in turn.
func (k *keyring) subject(parts ...string) string { return k.hashes.Hash(parts...).String() }

// window returns the key of a subject's counter in one window of a rule. id is its rules.Counter.ID.
func (k *keyring) window(subject, id string) string {
	return k.namespace + ":w:{" + subject + "}:" + id
}

// records returns the key of the answers to a subject's requests with an id.
func (k *keyring) records(subject string) string { return k.namespace + ":q:{" + subject + "}" }

// request returns the keyed hash of a request's id.
func (k *keyring) request(id string) string { return k.subject("request", id) }

// channel returns the Pub/Sub channel on which refunds and resets are announced.
func (k *keyring) channel() string { return k.namespace + ":taken-back" }
