package admission

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"regexp"
	"sync"
)

// All keys of this package:
//
//	key                               type     TTL                                         slot
//	<namespace>:w:{<subject>}:<id>    by the algorithm, as its file in lua/ says           {<subject>}
//	<namespace>:w:{<subject>}:<id>:b  STRING   base of a two-stage window, as fixed_window {<subject>}
//	<namespace>:w:{<subject>}:<id>:s  strikes of the window, as the sliding algorithms     {<subject>}
//	<namespace>:q:{<subject>}[:old]   HASH     answers to requests with an id, 2 minutes   {<subject>}
//	<namespace>:{bans}:…              the bans, as lua/bans.lua says                       {bans}
//
//	channel <namespace>:taken-back    subjects that were refunded or reset
//	channel <namespace>:{bans}        that something about bans has changed
//
// subject is a keyed hash of what is counted: 22 characters, whatever a caller sends. It is the same in all rules that count the
// same subject, so that one script decides them in one slot. id names the rule and the window: 8 characters.

// A keyring builds keys. It is safe for concurrent use.
type keyring struct {
	namespace string
	macs      sync.Pool // of *mac
}

// mac is a keyed hash with the room it needs, so that hashing a subject allocates only its name.
type mac struct {
	hash.Hash
	sum  [sha256.Size]byte
	text []byte
}

const minSecret = 16

var namespaces = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

func newKeyring(namespace string, secret []byte) (*keyring, error) {
	if !namespaces.MatchString(namespace) {
		return nil, fmt.Errorf("admission: Options.Namespace is %q, should be 1 to 64 of A-Z a-z 0-9 . _ : -", namespace)
	}
	if len(secret) < minSecret {
		return nil, errors.New("admission: Options.Secret is too short, should be 16 or more random bytes")
	}
	// A key of this package's own: a hash that it makes means nothing elsewhere.
	own := hmac.New(sha256.New, secret)
	own.Write([]byte("tidegate admission"))
	key := own.Sum(nil)
	k := &keyring{namespace: namespace}
	k.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	return k, nil
}

// subject returns the keyed hash of names and values in turn. Lengths are hashed as well, so that no value can
// pose as the end of another. 128 bits make a collision as unlikely as guessing a key.
func (k *keyring) subject(parts ...string) string {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	m.Reset()
	m.text = m.text[:0]
	for _, part := range parts {
		m.text = binary.AppendUvarint(m.text, uint64(len(part)))
		m.text = append(m.text, part...)
	}
	m.Write(m.text)
	if cap(m.text) > 4096 {
		m.text = nil // one huge value must not stay in the pool
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(m.sum[:0])[:16])
}

// window returns the key of a subject's counter in one window of a rule, see windowID.
func (k *keyring) window(subject, id string) string {
	return k.namespace + ":w:{" + subject + "}:" + id
}

// windowID names a window of a rule by everything that gives its counts their meaning, and by nothing else: a changed limit
// keeps the counts and acts on them, a changed length starts anew.
func windowID(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:6])
}

// records returns the key of the answers to a subject's requests with an id.
func (k *keyring) records(subject string) string { return k.namespace + ":q:{" + subject + "}" }

// request returns the keyed hash of a request's id.
func (k *keyring) request(id string) string { return k.subject("request", id) }

// channel returns where processes tell each other what was refunded and reset.
func (k *keyring) channel() string { return k.namespace + ":taken-back" }

// bans returns what all keys of the bans begin with, and the channel on which they are announced.
func (k *keyring) bans() string { return k.namespace + ":{bans}" }
