package captcha

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
)

// All keys of this package:
//
//	key                       type    TTL                                       slot
//	<namespace>:c:<solution>  STRING  a minute more than a challenge may live   its own
//
// The key exists if the solution was used. solution is a keyed hash of the solution: 22 characters, whatever a caller sends.

var namespaces = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// usedKey returns the key that marks a solution as used.
func usedKey(provider, solution string) string {
	sum := sha256.Sum256(lengthened(provider, solution))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

const minSecret = 16

// derive derives a key for one use from a secret with several uses.
func derive(secret []byte, label string) ([]byte, error) {
	if len(secret) < minSecret {
		return nil, errors.New("captcha: Secret is too short, should be 16 or more random bytes")
	}
	return keyed(secret, "captcha/"+label), nil
}

// keyed returns the keyed hash of parts in turn.
func keyed(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(lengthened(parts...))
	return h.Sum(nil)
}

// lengthened joins parts with their lengths, so that different lists never join to the same text.
func lengthened(parts ...string) (text []byte) {
	for _, part := range parts {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	return text
}

func checkNamespace(namespace string) error {
	if !namespaces.MatchString(namespace) {
		return fmt.Errorf("captcha: namespace is %q, should be 1 to 64 of A-Z a-z 0-9 . _ : -", namespace)
	}
	return nil
}
