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
//	<namespace>:w:{<subject>}:<id>    by the algorithm, see its file in lua/              {<subject>}
//	<namespace>:w:{<subject>}:<id>:b  STRING   base of a two-stage window, as fixed_window {<subject>}
//	<namespace>:w:{<subject>}:<id>:s  strikes of the window, as the sliding algorithms     {<subject>}
//	<namespace>:q:{<subject>}[:old]   HASH     answers to requests with an id, 2 minutes   {<subject>}
//	<namespace>:{bans}:…              the bans, see lua/bans.lua                            {bans}
//
//	channel <namespace>:taken-back    subjects that were refunded or reset
//	channel <namespace>:{bans}        that something about bans has changed
//
// subject is a keyed hash of the counted identity: 22 characters, whatever a caller sends. It is the same in all rules that count the
// same subject, so that one script decides them in one slot. id names the rule and the window: 8 characters.

// A keyring builds keys. It is safe for concurrent use.
type keyring struct {
	namespace string
	macs      sync.Pool // of *mac
}

// mac is a keyed hash with its buffers, so that hashing a subject allocates only the result.
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
	// Derive a separate key for this package, so that its hashes have no meaning elsewhere.
	own := hmac.New(sha256.New, secret)
	own.Write([]byte("tidegate admission"))
	key := own.Sum(nil)
	k := &keyring{namespace: namespace}
	k.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	return k, nil
}

// subject returns the keyed hash of names and values in turn. Each is hashed with its length, so that different lists never concatenate
// to the same input. A 128-bit hash makes collisions as unlikely as guessing a key.
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
		m.text = nil // do not keep a huge value in the pool
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(m.sum[:0])[:16])
}

// window returns the key of a subject's counter in one window of a rule, see windowID.
func (k *keyring) window(subject, id string) string {
	return k.namespace + ":w:{" + subject + "}:" + id
}

// windowID hashes exactly the properties of a window that give its counts their meaning: a changed limit keeps the counts and applies to
// them, a changed length starts from zero.
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

// channel returns the Pub/Sub channel on which refunds and resets are announced.
func (k *keyring) channel() string { return k.namespace + ":taken-back" }

// bans returns the prefix of all keys of the bans, which is also the channel on which they are announced.
func (k *keyring) bans() string { return k.namespace + ":{bans}" }
