package admission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission"
)

// Every rules file in the documents is valid and has the described effect.
func TestDocumentedRules(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lists"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "lists", "office.txt"), "10.0.0.0/8 # the office\n")
	found := 0
	for _, name := range []string{"README.md", "docs/rules.md", "docs/bans.md", "docs/cookbook.md"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
			src, _, _ := strings.Cut(block, "```")
			if !strings.HasPrefix(src, "version: 1\n") {
				continue
			}
			found++
			rules, err := admission.ParseRules(filepath.Join(dir, "rules.yaml"), []byte(src))
			if err != nil {
				t.Errorf("%s, block %d: %v", name, i+1, err)
				continue
			}
			for _, w := range admission.Lint(rules, true) {
				t.Errorf("%s, block %d: line %d: %s %s", name, i+1, w.Line, w.Rule, w.Text)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d files of rules in the documents, want 5 or more", found)
	}
}
