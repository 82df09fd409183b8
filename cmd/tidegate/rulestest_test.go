package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The cases of the cookbook pass with the rules of the cookbook, and fail with others.
func TestRulesTest(t *testing.T) {
	text, err := os.ReadFile("../../docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		content, _, _ = strings.Cut(content, "```\n")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shop, cases := file("shop.yaml", blocks[1]), file("cases.yaml", blocks[len(blocks)-1])
	if out, err := call(t, nothing, "rules", "test", shop, cases); err != nil || out != cases+": passed cases: 5\n" {
		t.Errorf("%v:\n%s", err, out)
	}

	slower := file("slower.yaml", strings.Replace(blocks[1], "registered: 60,", "registered: 59,", 1))
	out, err := call(t, nothing, "rules", "test", slower, cases)
	if err == nil || err.Error() != cases+": failed cases: 1 of 5" || !strings.HasPrefix(out, cases+":2: case a registered customer searches 60 times a minute: "+
		"request 60 of 60: got deny, rule search, reason rate_limited, remaining 0, retry after ") || !strings.HasSuffix(out, ", expected allow\n") {
		t.Errorf("%v:\n%s", err, out)
	}
	out, err = call(t, nothing, "rules", "test", slower, cases, "--json")
	var got struct {
		File, Version string
		Cases         []struct {
			Name, Failure string
			Line          int
			OK            bool
		}
	}
	if err == nil || json.Unmarshal([]byte(out), &got) != nil || got.File != slower || got.Version == "" || len(got.Cases) != 5 ||
		got.Cases[0].OK || got.Cases[0].Line != 2 || got.Cases[0].Failure == "" || !got.Cases[1].OK || got.Cases[1].Name != "a VIP searches without a limit" {
		t.Errorf("%v:\n%s", err, out)
	}

	for _, tt := range []struct{ rules, cases, want string }{
		{"version: 1\nrules: [{name: r}]\n", "cases: []", "rules.yaml:2:"},
		{"version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1s}]\n", "cases: []", `cases.yaml:1:6: should have "cases:" with a list of them`},
	} {
		if out, err := call(t, nothing, "rules", "test", file("rules.yaml", tt.rules), file("cases.yaml", tt.cases)); err == nil || out != "" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s: %s", err, tt.want, out)
		}
	}
	if _, err := call(t, nothing, "rules", "test", shop); err == nil || err.Error() != "CASES is required; usage: tidegate rules test FILE CASES" {
		t.Errorf("%v", err)
	}
}
