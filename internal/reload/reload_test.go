package reload_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/reload"
)

// TestLoad: content that cannot be read or used leaves the last good content in force, and each new error is logged once.
func TestLoad(t *testing.T) {
	var (
		logged  bytes.Buffer
		content string
		failure error
		used    []string
	)
	s := reload.New("KEYS", slog.New(slog.NewTextHandler(&logged, nil)),
		func(context.Context) ([]byte, error) { return []byte(content), failure },
		func(b []byte) error {
			if strings.HasPrefix(string(b), "bad") {
				return errors.New("is bad")
			}
			used = append(used, string(b))
			return nil
		})
	content = "bad from the start"
	if err := s.Load(t.Context()); err == nil || !s.State().Failed || !s.State().Loaded.IsZero() || logged.Len() > 0 {
		t.Fatalf("%v, %+v, logged %q", err, s.State(), &logged)
	}
	for i, step := range []struct {
		content string
		failure error
		failed  bool
		used    string // all content that came into force so far
		log     string // of this step; empty: nothing
	}{
		{"one", nil, false, "one", ""},
		{"one", nil, false, "one", ""},
		{"", errors.New("no such file"), true, "one", "no such file"},
		{"", errors.New("no such file"), true, "one", ""},
		{"bad", nil, true, "one", "is bad"},
		{"one", nil, false, "one", "reloaded"},
		{"two", nil, false, "one two", "reloaded"},
		{"", nil, false, "one two ", "reloaded"}, // an empty file is content too
		{"", nil, false, "one two ", ""},
	} {
		logged.Reset()
		content, failure = step.content, step.failure
		before := s.State().Loaded
		err := s.Load(t.Context())
		state := s.State()
		if (err != nil) != step.failed || state.Failed != step.failed || state.Setting != "KEYS" || state.Loaded.After(before) == step.failed {
			t.Errorf("step %d: %v, %+v", i, err, state)
		}
		if got := strings.Join(used, " "); got != step.used {
			t.Errorf("step %d: used %q", i, got)
		}
		if (logged.Len() > 0) != (step.log != "") || !strings.Contains(logged.String(), step.log) {
			t.Errorf("step %d: logged %q", i, &logged)
		}
	}
}

// TestWatch: a file that is removed is reported, and one that comes back is loaded.
func TestWatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	used := make(chan string, 10)
	s := reload.File("KEYS", file, slog.New(slog.DiscardHandler), func(b []byte) error { used <- string(b); return nil })
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Watch(ctx, file) }()
	until := func(failed bool) {
		t.Helper()
		for s.State().Failed != failed {
			select {
			case <-t.Context().Done():
				t.Fatal("the test ends first")
			case <-time.After(time.Millisecond):
			}
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	until(true)
	write("two")
	until(false)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := <-used + <-used; got != "onetwo" {
		t.Errorf("used %q", got)
	}
}

// TestStrangeFiles: a file that is too large, or is none, neither fills the memory nor blocks, and leaves the last good content in force.
func TestStrangeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	used := ""
	s := reload.File("KEYS", path, slog.New(slog.DiscardHandler), func(b []byte) error { used = string(b); return nil })
	load := func(write func() error) error {
		t.Helper()
		_ = os.RemoveAll(path)
		if err := write(); err != nil {
			t.Fatal(err)
		}
		return s.Load(t.Context())
	}
	if err := load(func() error { return os.WriteFile(path, []byte("good"), 0o600) }); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		write func() error
		want  string
	}{
		{func() error { return os.Mkdir(path, 0o700) }, "is no file"},
		{func() error { return os.Symlink(os.DevNull, path) }, "is no file"},
		{func() error { return os.WriteFile(path, bytes.Repeat([]byte(" "), 4<<20+1), 0o600) }, "more than 4194304"},
	} {
		if err := load(tt.write); err == nil || !strings.Contains(err.Error(), tt.want) || !s.State().Failed || used != "good" {
			t.Errorf("%v, %+v, in force %.20q; want %q", err, s.State(), used, tt.want)
		}
	}
}
