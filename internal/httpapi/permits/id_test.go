package permits

import (
	"testing"

	"github.com/tidegate/tidegate/internal/seal"
)

// What is signed outlives a deployment: a change here voids permits.
func TestSignatures(t *testing.T) {
	h := &Handlers{Keys: seal.NewKeys([]byte("a secret of the tests, 32 bytes."), nil)}
	if got := h.signed(forHolder, "report", "an id"); got != "an id.AGMvUs5mRNdbLE4sLW9zgQ" {
		t.Error(got)
	}
}
