package httpapi

import (
	"testing"

	"github.com/tidegate/tidegate/internal/seal"
)

// What is signed outlives a deployment: a change here voids permits and challenges.
func TestSignatures(t *testing.T) {
	a := &API{keys: seal.NewKeys([]byte("a secret of the tests, 32 bytes."), nil)}
	for what, c := range map[string][2]string{
		"permit": {a.signed(forHolder, "report", "an id"), "an id.AGMvUs5mRNdbLE4sLW9zgQ"},
		"sealed": {a.keys.Seal(contextUse, challengeContext{Purpose: "login", Subject: "ann", Expires: 5}), "eyJwIjoibG9naW4iLCJzIjoiYW5uIiwiZSI6NX0.4x74uYGIKluKs8GU5ANoKg"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s = %q, want %q", what, c[0], c[1])
		}
	}
}
