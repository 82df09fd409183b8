package deploy_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// make up gives the image the version of the repository, its commit and the commit's date, unless they are set.
func TestMakeUpPassesTheVersion(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"Makefile", "docker-compose.yml", ".env"} {
		content, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"VERSION", "COMMIT", "DATE", "COMPOSE", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}, name)
	})
	output := func(more []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Stderr, cmd.Env = dir, t.Output(), slices.Concat(env, more)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v", name, args, err)
		}
		return strings.TrimSpace(string(out))
	}
	compose := "docker-compose"
	if exec.Command("docker", "compose", "version").Run() == nil {
		compose = "docker compose"
	}
	passes := func(want map[string]string, more ...string) {
		t.Helper()
		var file struct {
			Services map[string]struct {
				Build struct{ Args map[string]string }
			}
		}
		if err := yaml.Unmarshal([]byte(output(more, "make", "--silent", "up", "COMPOSE="+compose+" config #")), &file); err != nil {
			t.Fatal(err)
		}
		for _, service := range []string{"api", "worker"} {
			if got := file.Services[service].Build.Args; !maps.Equal(got, want) {
				t.Errorf("%s is built with %v, want %v", service, got, want)
			}
		}
	}
	passes(map[string]string{"VERSION": "", "COMMIT": "", "DATE": ""}) // no repository

	author := []string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}
	output(nil, "git", "init", "--quiet")
	output(nil, "git", "add", ".")
	output([]string{"GIT_COMMITTER_DATE=2026-11-23T01:36:12+01:00"}, "git", append(author, "commit", "--quiet", "--message", "first")...)
	commit, date := output(nil, "git", "rev-parse", "HEAD"), "2026-11-23T00:36:12Z"
	passes(map[string]string{"VERSION": commit[:12], "COMMIT": commit, "DATE": date})
	output(nil, "git", append(author, "tag", "v1.2.3")...)
	passes(map[string]string{"VERSION": "v1.2.3", "COMMIT": commit, "DATE": date})
	passes(map[string]string{"VERSION": "v9", "COMMIT": commit, "DATE": date}, "VERSION=v9")
}
