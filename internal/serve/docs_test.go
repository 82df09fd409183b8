package serve_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocsNameTests: every test that a page names is there.
func TestDocsNameTests(t *testing.T) {
	t.Parallel()
	var tests, pages strings.Builder
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		test := strings.HasSuffix(path, "_test.go")
		if err != nil || d.IsDir() || !test && !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		if test {
			tests.Write(text)
		} else {
			pages.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(pages.String(), -1)
	if len(named) < 100 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, name := range named {
		if !strings.Contains(tests.String(), "func "+name+"(t *testing.T)") {
			t.Errorf("there is no %s", name)
		}
	}
}
