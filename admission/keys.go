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
//	key                             type   TTL                                     slot
//	<namespace>:w:{<subject>}:<id>  LIST   window + 1 s, set at each admission     {<subject>}
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
	secret = append([]byte(nil), secret...)
	k := &keyring{namespace: namespace}
	k.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, secret)} }
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

// window returns the key of a subject's log in one window of a rule, see windowID.
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
