package captcha

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/names"
)

// All keys of this package:
//
//	key                       type    TTL                                       slot
//	<namespace>:c:<solution>  STRING  a minute more than a challenge may live   its own
//
// The key exists if the solution was used. solution is a keyed hash of the solution: 22 characters, whatever a caller sends.

// usedKey returns the key that records that a solution was used.
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
	if !names.Namespace(namespace) {
		return fmt.Errorf("captcha: namespace must be "+names.Length+" of A-Z a-z 0-9 . _ : -, got %q", namespace)
	}
	return nil
}
