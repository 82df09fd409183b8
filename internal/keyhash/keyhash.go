// Package keyhash derives keys from a secret, and hashes what callers send into texts of fixed length: nothing that they send can collide
// with, or grow, what is made of it, such as the keys in Redis.
//
// Hashes stand in Redis and in tokens, and survive deployments: a change here starts all counts from zero and voids all tokens.
package keyhash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
)

// MinSecret is the minimum length of a secret in bytes.
const MinSecret = 16

// A Digest is the first half of a SHA-256 or HMAC-SHA-256: with 128 bits, collisions are as unlikely as guessing it. It reveals no state of
// the hash to continue from, because it is truncated; so a text may be hashed after a secret of fixed length.
type Digest [16]byte

// String returns 22 characters of A-Z a-z 0-9 - _.
func (d Digest) String() string { return base64.RawURLEncoding.EncodeToString(d[:]) }

var std, rawURL = base64.StdEncoding.Strict(), base64.RawURLEncoding.Strict() // Strict copies the encoding

// DecodeRawURL decodes base64url without padding (RFC 4648, section 5). It is for texts that were signed, or are compared: it accepts one
// spelling of each value, while package base64 ignores line breaks and, unless it is strict, the last bits.
func DecodeRawURL(text string) ([]byte, error) { return decode(rawURL, text) }

// DecodeStd is like DecodeRawURL for base64 with padding (RFC 4648, section 4).
func DecodeStd(text string) ([]byte, error) { return decode(std, text) }

func decode(strict *base64.Encoding, text string) ([]byte, error) {
	value, err := strict.DecodeString(text) //nolint:forbidigo // this is the function to use
	if err == nil && len(text) != strict.EncodedLen(len(value)) {
		return nil, errors.New("base64 with a line break")
	}
	return value, err
}

// Derive returns a key for one use, of 32 bytes, from a secret that has several: what is made with the key has no meaning elsewhere.
func Derive(secret []byte, use string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(use))
	return h.Sum(nil)
}

// MAC returns the keyed hash of a text.
func MAC(key []byte, text string) Digest { return Digest(Derive(key, text)[:16]) }

// Of returns the hash of a text.
func Of(text []byte) Digest {
	sum := sha256.Sum256(text)
	return Digest(sum[:16])
}

// AppendParts appends parts to text, each with its length, so that different lists never give the same text.
func AppendParts(text []byte, parts ...string) []byte {
	for _, part := range parts {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	return text
}

// A Key makes keyed hashes. Make it with New; it is safe for concurrent use.
type Key struct {
	macs sync.Pool // of *mac
}

// mac is a keyed hash with its buffers, so that hashing allocates nothing.
type mac struct {
	hash.Hash
	sum  [sha256.Size]byte
	text []byte
}

// New returns a Key, see Derive.
func New(key []byte) *Key {
	k := &Key{}
	k.macs.New = func() any { return &mac{Hash: hmac.New(sha256.New, key)} }
	return k
}

// Hash returns the keyed hash of parts, see AppendParts.
func (k *Key) Hash(parts ...string) Digest {
	return k.hash(func(text []byte) []byte { return AppendParts(text, parts...) })
}

// MAC returns the keyed hash of parts that follow each other. Different lists may give the same text; where that matters, use Hash.
func (k *Key) MAC(parts ...string) Digest {
	return k.hash(func(text []byte) []byte {
		for _, part := range parts {
			text = append(text, part...)
		}
		return text
	})
}

func (k *Key) hash(write func([]byte) []byte) Digest {
	m := k.macs.Get().(*mac)
	defer k.macs.Put(m)
	m.Reset()
	m.text = write(m.text[:0])
	m.Write(m.text)
	if cap(m.text) > 4096 {
		m.text = nil // do not keep a huge value in the pool
	}
	return Digest(m.Sum(m.sum[:0])[:16])
}
