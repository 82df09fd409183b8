package auth

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shownSecret finds what looks like one: SECRET=…, token: …, Bearer …, --token …, //user:…@host.
var shownSecret = regexp.MustCompile(`(?i)(?:(?:secret|token|password)\w*["']?[ \t]*[:=][ \t]*["']?|bearer |--token |://\w*:)([\w-]{16,})`)

// Whatever the repository shows as a secret that one could use is one that the programs refuse.
func TestWhatIsPublished(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "artifacts" || name == "tidegate-data" || name == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".md") && !strings.HasSuffix(name, ".yml") && !strings.HasSuffix(name, ".yaml") && name != ".env" && name != "Makefile":
			return nil
		}
		content, err := os.ReadFile(path)
		for _, m := range shownSecret.FindAllStringSubmatch(string(content), -1) {
			if found++; !IsPublished(m[1]) {
				t.Errorf("%s shows %q, which the programs would take; a secret in the repository should contain %q", path, m[0], publishedPart)
			}
		}
		return err
	})
	if err != nil || found < 8 {
		t.Errorf("%d found, %v", found, err)
	}
}
