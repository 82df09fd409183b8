package rules_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
)

// What would keep the parser busy for minutes, or overflow its stack, is refused before it gets there.
func TestBoundsOfAFile(t *testing.T) {
	const deep = "this is nested more than 100 levels deep"
	for name, c := range map[string]struct{ src, want string }{
		"brackets":          {strings.Repeat("[", 1<<20), "x.yaml:1:101: " + deep},
		"braces":            {strings.Repeat("{a: ", 1<<18), "x.yaml:1:401: " + deep},
		"over lines":        {strings.Repeat("[\n", 1<<18), "x.yaml:101:1: " + deep},
		"lists in lists":    {strings.Repeat("- ", 1<<19), "x.yaml:1:201: " + deep},
		"keys in keys":      {strings.Repeat("? ", 1<<19), "x.yaml:1:201: " + deep},
		"tags":              {strings.Repeat("!a ", 1<<18), "x.yaml:1:201: " + deep},
		"keys":              {strings.Repeat("a: b\n", 1<<17), "x.yaml:43691:4: the file is too long: at most 131072 words and signs are read, long lists should stand in files of their own"},
		"brackets in texts": {"version: 1\n# " + strings.Repeat("[", 200) + "\nrules: [{name: a, subject: '" + strings.Repeat("[", 200) + "'}]", "x.yaml:3:28: a part of subject should be"},
	} {
		_, err := rules.Parse("x.yaml", []byte(c.src))
		var place *rules.Error
		if !errors.As(err, &place) || !strings.HasPrefix(place.Error(), c.want) {
			t.Errorf("%s: %.200v, want %s", name, err, c.want)
		}
	}
}
