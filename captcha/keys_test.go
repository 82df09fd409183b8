package captcha

import (
	"testing"
	"time"
)

// What is signed outlives a deployment: a change here voids challenges, and lets used solutions pass again.
func TestHashes(t *testing.T) {
	p, err := NewProofOfWork(ProofOfWorkOptions{Secret: []byte("a secret of the tests, 32 bytes."), Used: struct{ Used }{}, Lifetime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string][2]string{
		"signing key": {p.keys[0].signing, "5cf2ad63b5f97ba85e3ffa36dec19033c4d6c4359f654771b024361e3d603486"},
		"subject":     {p.keys[0].subject("login", "ann"), "h_dCeR6vD2jMQzMRLL5OEw"},
		"used":        {usedKey("altcha", "solution"), "gIBczNaYB_JPA_tgUtrnwA"},
		"cdata":       {cdata("login", "ann"), "U90VWR2-_Kz4XttW2UrDsA"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s = %q, want %q", what, c[0], c[1])
		}
	}
}
