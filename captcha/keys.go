package captcha

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/tidegate/tidegate/internal/keyhash"
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
	return keyhash.Of(keyhash.AppendParts(nil, provider, solution)).String()
}

// derive derives a key for one use from a secret with several uses.
func derive(secret []byte, label string) ([]byte, error) {
	if len(secret) < keyhash.MinSecret {
		return nil, errors.New("captcha: Secret must have at least 16 random bytes")
	}
	return keyhash.Derive(secret, string(keyhash.AppendParts(nil, "captcha/"+label))), nil
}

func checkNamespace(namespace string) error {
	if !namespaces.MatchString(namespace) {
		return fmt.Errorf("captcha: namespace must be 1 to 64 of A-Z a-z 0-9 . _ : -, got %q", namespace)
	}
	return nil
}
