// Package seal signs values that clients keep for the API: they can read them, but neither change nor forge them.
package seal

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/keyhash"
)

// A Key signs. It is derived from a secret by NewKeys.
type Key []byte

// Keys are the keys of an installation: the first one signs, all are accepted. Safe for concurrent use.
type Keys []Key

// NewKeys derives keys from a secret that other packages use too, so that signatures of this package are not valid elsewhere.
// previous is the former secret after a change; empty: there is none.
func NewKeys(secret, previous []byte) Keys {
	keys := Keys{derive(secret)}
	if len(previous) > 0 {
		keys = append(keys, derive(previous))
	}
	return keys
}

func derive(secret []byte) Key { return keyhash.Derive(secret, "tidegate http") }

// Seal encodes and signs v, which consists of texts and numbers. A value that is sealed for one use is not accepted for another.
func (k Keys) Seal(use string, v any) string {
	text, _ := json.Marshal(v) // cannot fail
	return k[0].sign(use, base64.RawURLEncoding.EncodeToString(text))
}

// Open is the reverse of Seal. It returns the key that sealed the text, or nil if none did.
func (k Keys) Open(use, text string, into any) (by Key) {
	payload, _, _ := strings.Cut(text, ".")
	i := slices.IndexFunc(k, func(key Key) bool { return hmac.Equal([]byte(text), []byte(key.sign(use, payload))) })
	if i < 0 {
		return nil
	}
	written, err := keyhash.DecodeRawURL(payload)
	if err != nil || json.Unmarshal(written, into) != nil {
		return nil // signed, but by a version with another format
	}
	return k[i]
}

func (k Key) sign(use, payload string) string { return payload + "." + k.Hash(use, payload) }

// Hash is an HMAC of values; use keeps the hashes of one purpose apart from all others.
func (k Key) Hash(use string, values ...string) string {
	return keyhash.MAC(k, fmt.Sprintf("%s %q", use, values)).String()
}
