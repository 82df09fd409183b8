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

// A folder is the functions of a package that go test runs, by name, each with the texts that names of its subtests can be.
type folder map[string]map[string]bool

// foldersOf reads the tests below a folder, by folder: two packages may have tests of one name.
func foldersOf(t *testing.T, root string) map[string]folder {
	t.Helper()
	files := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files[filepath.Dir(path)] = append(files[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]folder{}
	for path, files := range files {
		found[path] = testsOf(files)
	}
	return found
}

// testsOf finds the tests of a package. Names of subtests stand in the test itself, or in a table of the package that it names.
func testsOf(files []*ast.File) folder {
	found, tables := folder{}, map[string]ast.Node{}
	for _, file := range files {
		for _, one := range file.Decls {
			general, ok := one.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				if table, ok := spec.(*ast.ValueSpec); ok && general.Tok == token.VAR {
					tables[table.Names[0].Name] = table
				}
			}
		}
	}
	for _, file := range files {
		for _, one := range file.Decls {
			f, ok := one.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !testName.MatchString(f.Name.Name) {
				continue
			}
			found[f.Name.Name] = map[string]bool{}
			texts, names, runs := inside(f.Body)
			if !runs {
				continue
			}
			for name := range names {
				if tables[name] != nil {
					more, _, _ := inside(tables[name])
					texts = append(texts, more...)
				}
			}
			for _, text := range texts {
				found[f.Name.Name][text] = true
			}
		}
	}
	return found
}

// inside are the texts and the names within a piece of a program, and whether it runs subtests.
func inside(node ast.Node) (texts []string, names map[string]bool, runs bool) {
	names = map[string]bool{}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				texts = append(texts, text)
			}
		case *ast.Ident:
			names[n.Name] = true
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			runs = runs || ok && f.Sel.Name == "Run"
		}
		return true
	})
	return texts, names, runs
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z_]\w*$`)

// has tells whether there is a test of this name, which may have a subtest's behind a slash.
func (f folder) has(name string) bool {
	function, sub, _ := strings.Cut(name, "/")
	return f[function] != nil && (sub == "" || f[function][strings.ReplaceAll(sub, "∕", "/")])
}

// A subtest is one of its own test, and a name of another package's is not taken for it.
func TestSubtestsAreFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", `package p
var table, other = []string{"in the table"}, 1
func TestA(t *testing.T) { for name := range table { t.Run(name, nil) }; t.Run("its own", nil) }
func TestB(t *testing.T) { t.Log("a text") }
func TestC(t *testing.T) { t.Run("another's", nil) }
func testD(t *testing.T) {}`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOf([]*ast.File{file})
	for name, want := range map[string]bool{
		"TestA": true, "TestA/in the table": true, "TestA/its own": true, "TestA/another's": false, "TestA/a text": false,
		"TestB": true, "TestB/a text": false, "TestC/in the table": false, "TestC/another's": true, "testD": false, "TestE": false,
	} {
		if tests.has(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// Each line of what Koala is and has stands in docs/koala.md beside a test that there is.
func TestInventory(t *testing.T) {
	folders := foldersOf(t, "../../..")
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
			var in []string
			for path, tests := range folders {
				if tests.has(name[1]) {
					in = append(in, path)
				}
			}
			if len(in) != 1 {
				t.Errorf("%s: %s is a test in %q, should be one in one package", cells[0], name[1], in)
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
