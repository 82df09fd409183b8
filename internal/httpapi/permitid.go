package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// What an id is signed for.
const (
	forHolder   = "permit id"      // renewal and release
	forOperator = "forced release" // what operators are shown of the permits of others
)

// signed is a permit's id of a semaphore as callers have it. A Redis that has lost its memory believes every id, since holders register
// again by them, so whoever could make one up could take the place of a true holder.
func (a *API) signed(use, name, id string) string { return signedWith(a.keys[0], use, name, id) }

func signedWith(key []byte, use, name, id string) string {
	h := hmac.New(sha256.New, key)
	fmt.Fprintf(h, "%s %q %q", use, name, id)
	return id + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// unsigned is the reverse of signed, or false where it did not make the id for this use and semaphore.
func (a *API) unsigned(use, name, id string) (string, bool) {
	inner := id[:max(0, strings.LastIndexByte(id, '.'))]
	return inner, slices.ContainsFunc(a.keys, func(key []byte) bool {
		return hmac.Equal([]byte(id), []byte(signedWith(key, use, name, inner)))
	})
}
