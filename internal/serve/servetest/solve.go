package servetest

import (
	"net/http"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

// Solve solves the challenge at a url as a browser does, and returns the solution.
func Solve(t testing.TB, url string) string {
	t.Helper()
	answer := Call("GET", url, "")
	if answer.Status != http.StatusOK {
		t.Fatal(answer)
	}
	return testenv.Solve(t, answer.Body)
}
