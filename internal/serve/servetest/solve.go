package servetest

import (
	"net/http"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

// Solve does what a browser does with the challenge at a url, and returns the solution.
func Solve(t testing.TB, url string) string {
	t.Helper()
	answer := Call("GET", url, "")
	if answer.Status != http.StatusOK {
		t.Fatal(answer)
	}
	return testenv.Solve(t, answer.Body)
}
