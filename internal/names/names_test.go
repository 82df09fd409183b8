package names_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/names"
)

// Each grammar is that of a regular expression.
var grammars = []struct {
	valid func(string) bool
	is    *regexp.Regexp
}{
	{func(s string) bool { return names.Lower(s, "_-", 32) }, regexp.MustCompile(`\A[a-z0-9_-]{1,32}\z`)},
	{func(s string) bool { return names.Mixed(s, "", 64) }, regexp.MustCompile(`\A[A-Za-z0-9]{1,64}\z`)},
	{names.Namespace, regexp.MustCompile(`\A[A-Za-z0-9._:-]{1,64}\z`)},
	{names.Semaphore, regexp.MustCompile(`\A([a-z0-9-]{1,64}:)?[a-z0-9-]{1,64}\z`)},
}

func check(t *testing.T, name string) {
	t.Helper()
	for _, g := range grammars {
		if got, want := g.valid(name), g.is.MatchString(name); got != want {
			t.Errorf("%s: %q is %t, want %t", g.is, name, got, want)
		}
	}
}

func TestGrammars(t *testing.T) {
	for c := range 256 {
		check(t, string([]byte{byte(c)}))
		check(t, string([]byte{'a', byte(c), 'a'}))
	}
	for _, n := range []int{31, 32, 33, 63, 64, 65} {
		check(t, strings.Repeat("a", n))
		check(t, strings.Repeat("a", n)+":a")
		check(t, "a:"+strings.Repeat("a", n))
	}
	for _, name := range []string{"", ":", "a:", ":a", "a:b:c", "a\n", "ä", "\u212a"} {
		check(t, name)
	}
}

func FuzzGrammars(f *testing.F) {
	f.Add("a:b-0")
	f.Fuzz(func(t *testing.T, name string) { check(t, name) })
}
