package permits

import (
	"crypto/hmac"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/keyhash"
	"github.com/tidegate/tidegate/internal/seal"
)

// Purposes for which an id is signed.
const (
	forHolder   = "permit id"      // renewal and release
	forOperator = "forced release" // permits of others in responses to operators
)

// signed returns a permit's id in the form that callers get. After losing its data, Redis accepts every id, since holders
// register again by them. Without the signature, anyone could make up an id and take the place of a real holder.
func (h *Handlers) signed(use, name, id string) string {
	return signedWith(h.Keys[0], use, name, id)
}

func signedWith(key seal.Key, use, name, id string) string {
	return id + "." + keyhash.MAC(key, fmt.Sprintf("%s %q %q", use, name, id)).String()
}

// unsigned is the reverse of signed, or false if signed did not make the id for this use and semaphore.
func (h *Handlers) unsigned(use, name, id string) (string, bool) {
	inner := id[:max(0, strings.LastIndexByte(id, '.'))]
	return inner, slices.ContainsFunc(h.Keys, func(key seal.Key) bool {
		return hmac.Equal([]byte(id), []byte(signedWith(key, use, name, inner)))
	})
}
