package filewatch_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/filewatch"
)

// However a file comes to have another content, it is noticed.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(dir string) error // lays out dir/rules
		then  []func(dir string) error
	}{
		{"written again", put("rules", "0"), []func(string) error{put("rules", "1"), put("rules", "2")}},
		{"replaced", put("rules", "0"), []func(string) error{
			both(put("new", "1"), move("new", "rules")), both(put("new", "2"), move("new", "rules")),
		}},
		{"removed and made again", put("rules", "0"), []func(string) error{both(remove("rules"), put("rules", "1"))}},
		{"not there at first", remove("rules"), []func(string) error{put("rules", "1"), put("rules", "2")}},
		{"in a directory that is made again", put("rules", "0"), []func(string) error{both(remove("."), put("rules", "1")), put("rules", "2")}},
		{
			"as Kubernetes does it", both(put("v0/rules", "0"), link("v0", "..data"), link("..data/rules", "rules")),
			[]func(string) error{
				both(put("v1/rules", "1"), link("v1", "..new"), move("..new", "..data"), remove("v0")),
				both(put("v2/rules", "2"), link("v2", "..new"), move("..new", "..data"), remove("v1")),
			},
		},
		{
			"at the end of links", both(put("a/b/real", "0"), link("a", "x"), link("x/b/real", "rules")),
			[]func(string) error{put("a/b/real", "1"), both(put("c/b/real", "2"), link("c", "y"), move("y", "x")), put("c/b/real", "3")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "d")
			if err := c.begin(dir); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "rules")
			ctx, stop := context.WithCancel(t.Context())
			seen, done := make(chan string, 100), make(chan error)
			go func() {
				done <- filewatch.Watch(ctx, func() []string { return []string{path} }, func() {
					content, _ := os.ReadFile(path)
					seen <- string(content)
				})
			}()
			<-seen // the watch has begun
			for i, change := range c.then {
				if err := change(dir); err != nil {
					t.Fatal(err)
				}
				want := string(rune('1' + i))
				awaitContent(t, seen, want)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A directory in which something happens all the time hides no change.
func TestWatchInANoisyDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := put("rules", "0")(dir); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	seen, done, quiet := make(chan string, 100), make(chan error), make(chan struct{})
	path := filepath.Join(dir, "rules")
	go func() {
		done <- filewatch.Watch(ctx, func() []string { return []string{path} }, func() {
			content, _ := os.ReadFile(path)
			seen <- string(content)
		})
	}()
	<-seen
	go func() {
		defer close(quiet)
		for pace := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-pace.C {
			if err := put("log", "something")(dir); err != nil {
				t.Error(err)
			}
		}
	}()
	if err := put("rules", "1")(dir); err != nil {
		t.Fatal(err)
	}
	awaitContent(t, seen, "1")
	if n := len(seen); n > 1 {
		t.Errorf("called %d times more, for a file that is not watched", n)
	}
	stop()
	<-quiet
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func awaitContent(t *testing.T, seen <-chan string, want string) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case got := <-seen:
			if got == want {
				return
			}
		case <-late:
			t.Fatalf("%q was never seen", want)
		}
	}
}

func put(name, content string) func(string) error {
	return func(dir string) error {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(content), 0o600)
	}
}

func remove(name string) func(string) error {
	return func(dir string) error {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		return os.RemoveAll(filepath.Clean(filepath.Join(dir, name)))
	}
}

func move(from, to string) func(string) error {
	return func(dir string) error { return os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) }
}

func link(target, name string) func(string) error {
	return func(dir string) error { return os.Symlink(target, filepath.Join(dir, name)) }
}

func both(steps ...func(string) error) func(string) error {
	return func(dir string) error {
		for _, step := range steps {
			if err := step(dir); err != nil {
				return err
			}
		}
		return nil
	}
}
