package shop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
)

// readmeProgram returns the Go program in README.
func readmeProgram(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	must(t, err)
	_, section, found := strings.Cut(string(readme), "\n## In Go\n")
	_, program, begun := strings.Cut(section, "\n```go\n")
	program, _, ended := strings.Cut(program, "\n```\n")
	if !found || !begun || !ended {
		t.Fatal("README has no Go program")
	}
	return program + "\n"
}

// TestReadmeHasTheExample: README has the program of the Example, as pkg.go.dev shows it.
func TestReadmeHasTheExample(t *testing.T) {
	file, err := os.ReadFile("example_test.go")
	must(t, err)
	example := strings.Replace(string(file), "package shop_test\n", "package main\n", 1)
	example = strings.Replace(example, "func Example() {\n", "func main() {\n", 1)
	if program := readmeProgram(t); program != example {
		t.Errorf("README has\n%s\nand the Example is\n%s", program, example)
	}
}

// TestReadmeProgram runs README's program in a module of its own, as README describes it, and once again.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(readmeProgram(t)), 0o600))
	sums, err := os.ReadFile("../../go.sum") // what this module needs was verified
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
	root, err := filepath.Abs("../..")
	must(t, err)
	env := append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "REDIS_URL="+testenv.StartRedis(t).URL(), "DATABASE_URL="+testenv.Postgres(t))
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("go", "mod", "init", "example.com/shop")
	run("go", "mod", "edit", "-replace", "github.com/tidegate/tidegate="+root)
	run("go", "get", "github.com/tidegate/tidegate@v0.0.0")
	run("go", "build", "-o", "shop", ".")
	for range 2 {
		got := run(filepath.Join(dir, "shop"))
		for _, line := range []string{"admitted: true", "order: shoe [1] ", "payment: paid none"} {
			if !strings.Contains(got, line) {
				t.Errorf("no %q in\n%s", line, got)
			}
		}
	}
}
