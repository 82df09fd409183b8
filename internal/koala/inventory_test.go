package koala_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tests are the functions that go test runs, by name, with all texts of their packages' tests, in which names of subtests stand.
type tests map[string]map[string]bool

// testsOf reads the tests below a folder.
func testsOf(t *testing.T, root string) tests {
	t.Helper()
	found, texts := tests{}, map[string]map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		if texts[folder] == nil {
			texts[folder] = map[string]bool{}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				s, err := strconv.Unquote(text.Value)
				texts[folder][s] = err == nil
			}
			return true
		})
		for _, one := range file.Decls {
			if f, ok := one.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				found[f.Name.Name] = texts[folder]
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z_]\w*$`)

// has tells whether there is a test of this name, which may have a subtest's behind a slash.
func (all tests) has(name string) bool {
	function, sub, _ := strings.Cut(name, "/")
	return testName.MatchString(function) && all[function] != nil && (sub == "" || all[function][strings.ReplaceAll(sub, "∕", "/")])
}

// Each line of what Koala is and has stands in docs/koala.md beside a test that there is.
func TestInventory(t *testing.T) {
	all := testsOf(t, "../..")
	lines := 0
	var defects []string
	for _, cells := range rows(t, "## The inventory") {
		last := cells[len(cells)-1]
		if last == "shown by" || strings.HasPrefix(last, "---") {
			continue
		}
		lines++
		names := inTicks.FindAllStringSubmatch(last, -1)
		if len(cells) != 3 || len(names) == 0 {
			t.Errorf("the line %q has no test, or is not of three cells", cells)
		}
		for _, name := range names {
			if !all.has(name[1]) {
				t.Errorf("%s: there is no test %s", cells[0], name[1])
			}
		}
		if regexp.MustCompile(`^K\d+\b`).MatchString(cells[0]) {
			number, _, _ := strings.Cut(cells[0], " ")
			defects = append(defects, strings.TrimSuffix(number, ":"))
		}
	}
	if lines < 100 {
		t.Errorf("%d lines, want 100 or more", lines)
	}
	if want := "K1 K2 K3 K4 K5 K6 K7 K8 K9 K10 K11 K12 K13 K14"; strings.Join(defects, " ") != want {
		t.Errorf("defects %v, want %s", defects, want)
	}
}
