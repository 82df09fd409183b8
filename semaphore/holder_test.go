package semaphore_test

import (
	"strings"
	"testing"

	"github.com/tidegate/tidegate/semaphore"
)

func TestHolderName(t *testing.T) {
	long := strings.Repeat("x", semaphore.MaxText-1)
	for text, want := range map[string]string{
		"report 7 of ada":       "report 7 of ada",
		"a\nb\x00c\x7fd\u0085e": "a?b?c?d?e",
		"a\xffé":                "a?é",
		long + "yz":             long + "y",
		long + "é":              long,
		"":                      "",
	} {
		if got := semaphore.HolderName(text); got != want {
			t.Errorf("%.40q is %.40q, want %.40q", text, got, want)
		}
	}
}
