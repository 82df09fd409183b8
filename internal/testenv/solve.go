package testenv

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	altcha "github.com/altcha-org/altcha-lib-go"
)

// Solve solves a challenge, as the widget does in a browser, and returns the solution.
func Solve(t testing.TB, challenge []byte) string {
	t.Helper()
	var c altcha.Challenge
	if err := json.Unmarshal(challenge, &c); err != nil {
		t.Fatalf("%s: %v", challenge, err)
	}
	s, err := altcha.SolveChallenge(c.Challenge, c.Salt, altcha.SHA256, int(c.MaxNumber), 0, nil)
	if err != nil || s == nil {
		t.Fatalf("%s has no solution: %v", challenge, err)
	}
	text, err := json.Marshal(altcha.Payload{
		Algorithm: c.Algorithm, Challenge: c.Challenge, Number: int64(s.Number), Salt: c.Salt,
		Signature: c.Signature,
	})
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}
