package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// faketime returns the path of libfaketime.
func faketime(t testing.TB) string {
	t.Helper()
	library, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if err != nil || len(library) == 0 {
		t.Fatalf("testenv: libfaketime is not installed; make setup installs it")
	}
	return library[0]
}

// clockEnv returns the environment in which setClock shifts the wall clock of s.
func clockEnv(s *server, faketime string) []string {
	return append(os.Environ(), "LD_PRELOAD="+faketime, "FAKETIME_TIMESTAMP_FILE="+clockFile(s), "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1")
}

func clockFile(s *server) string { return filepath.Join(s.dir, "clock") }

// setClock replaces the file atomically: the server reads it whenever it reads its clock.
func setClock(s *server, wrong time.Duration) error {
	next := clockFile(s) + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+d", int64(wrong.Seconds())), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(next, 0o644); err != nil { // the server may run as another user
		return err
	}
	return os.Rename(next, clockFile(s))
}
