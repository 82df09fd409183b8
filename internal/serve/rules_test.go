package serve

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
)

// Every rules file in the documents is valid and has the described effect.
func TestDocumentedRules(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lists"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lists", "office.txt"), []byte("10.0.0.0/8 # the office\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "rules.yaml")
	found := 0
	for _, name := range []string{"README.md", "docs/rules.md", "docs/bans.md", "docs/cookbook.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
			src, _, _ := strings.Cut(block, "```")
			if !strings.HasPrefix(src, "version: 1\n") {
				continue
			}
			found++
			if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
				t.Fatal(err)
			}
			set, err := LoadRules(path)
			if err != nil {
				t.Errorf("%s, block %d: %v", name, i+1, err)
				continue
			}
			for _, w := range LintRules(set, true) {
				t.Errorf("%s, block %d: line %d: %s %s", name, i+1, w.Line, w.Rule, w.Text)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d files of rules in the documents, want 5 or more", found)
	}
}

// A file with an error in any section is refused as a whole, with the place of the error, and the last good one stays in force.
func TestRulesFileIsValidAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("version: 1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const rule = "rules: [{name: r, subject: user, limit: 1, window: 1s}]\n"
	write(rule + "login: [{count: name, limit: 3, window: 1m, then: challenge}]\nsemaphores: {report: {limit: 2}}\nbans: {run: [/bin/true]}\n")
	set, err := LoadRules(path)
	if err != nil {
		t.Fatal(err)
	}
	live := rules.NewLive(set, nil)
	for text, want := range map[string]string{
		rule + "login: [{count: name}]":            ":3:9: the login rule has no count, limit or then",
		rule + "semaphores: {report: {lease: 1s}}": ":3:22: semaphore \"report\" has no limit",
		rule + "bans: {run: [true]}":               ":3:14: an argument of run should be a text",
		rule + "bans: {run: [block-ip]}":           ":3:14: run should begin with the absolute path",
		"login: [{count: name}]\nrules: [{}]":      ":2:9: the login rule has no count", // the first error of the file
		rule + "logins: []":                        ":3:1: unknown key \"logins\": a rules file has version, answer, lists, rules, bans, semaphores, login",
	} {
		write(text)
		kept, err := live.Reload()
		var place *rules.Error
		if !errors.As(err, &place) || !strings.HasPrefix(place.Error(), path+want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if kept != set || live.Rules() != set || !live.Failed() {
			t.Errorf("%s: other rules are in force", text)
		}
	}
}

// Whatever the sections of a file hold, they are valid or an error with a place, and never a crash.
func FuzzRulesFile(f *testing.F) {
	f.Add(rules.Default().Source())
	for _, s := range []string{
		"bans: {run: [/usr/local/bin/block-ip, -v], per_minute: 30, widest_v4: 16, widest_v6: 32}", "semaphores: {report: {limit: 2, lease: 15s}, a:b: {limit: 0}}",
		"login: [{count: ip, limit: 3, window: 1m, then: ban, for: 10m, growing: true, at_most: 1h, shadow: true}]",
		"login: {a: b}", "semaphores: [a]", "bans: a", "login: [[]]", "semaphores: {a: 1}", "bans: {run: []}", "login:", "semaphores:", "bans:", "login: &a [*a]",
	} {
		f.Add([]byte("version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1s}]\n" + s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := rules.Parse("fuzz.yaml", src, sections...)
		var place *rules.Error
		if err != nil && (r != nil || !errors.As(err, &place) || place.Problem == "" || place.Line < 0 || place.Column < 0) {
			t.Errorf("%v, %v", r, err)
		}
	})
}
