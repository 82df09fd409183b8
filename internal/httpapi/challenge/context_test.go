package challenge

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/seal"
)

var secret = []byte("a secret of at least 16 bytes")

func TestContextExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handlers{Keys: seal.NewKeys(secret, nil)}
		want := captcha.Binding{Purpose: "login", Subject: "ann", Risk: 2}
		sealed := h.sealContext(want)
		time.Sleep(contextLife)
		if got, err := h.openContext(sealed); err != nil || got != want {
			t.Errorf("%+v %v", got, err)
		}
		time.Sleep(time.Second)
		if _, err := h.openContext(sealed); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Error(err)
		}
	})
}

// What is signed outlives a deployment: a change here voids challenges.
func TestContextsAreSignedAsBefore(t *testing.T) {
	keys := seal.NewKeys([]byte("a secret of the tests, 32 bytes."), nil)
	got := keys.Seal(contextUse, challengeContext{Purpose: "login", Subject: "ann", Expires: 5})
	if got != "eyJwIjoibG9naW4iLCJzIjoiYW5uIiwiZSI6NX0.4x74uYGIKluKs8GU5ANoKg" {
		t.Error(got)
	}
}

func FuzzContext(f *testing.F) {
	h := &Handlers{Keys: seal.NewKeys(secret, nil)}
	f.Add("")
	f.Add((&Handlers{Keys: seal.NewKeys([]byte("another"), nil)}).sealContext(captcha.Binding{Purpose: "login", Subject: "ann"}))
	f.Fuzz(func(t *testing.T, sealed string) {
		if b, err := h.openContext(sealed); err == nil {
			t.Errorf("%q is %+v", sealed, b)
		}
	})
}
