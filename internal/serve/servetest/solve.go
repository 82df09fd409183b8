package servetest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"testing"

	altcha "github.com/altcha-org/altcha-lib-go"
)

// Solve does what a browser does with the challenge at a url, and returns the solution.
func Solve(t testing.TB, url string) string {
	t.Helper()
	answer := Call("GET", url, "")
	var c altcha.Challenge
	if answer.Into(t, &c); answer.Status != http.StatusOK {
		t.Fatal(answer)
	}
	s, err := altcha.SolveChallenge(c.Challenge, c.Salt, altcha.SHA256, int(c.MaxNumber), 0, nil)
	if err != nil || s == nil {
		t.Fatalf("%v has no solution: %v", answer, err)
	}
	text, err := json.Marshal(altcha.Payload{Algorithm: c.Algorithm, Challenge: c.Challenge, Number: int64(s.Number), Salt: c.Salt, Signature: c.Signature})
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}
