package captcha_test

import (
	"testing"

	"github.com/tidegate/tidegate/captcha"
)

// What a challenge and a refused solution cost us, whatever they cost the caller.
func BenchmarkChallenge(b *testing.B) {
	p := newProof(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Challenge(b.Context(), login); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	p := newProof(b)
	token := solved(b, p, login)
	other := captcha.Binding{Purpose: "login", Subject: "bob"}
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Verify(b.Context(), token, other, nobody)
	}
}
