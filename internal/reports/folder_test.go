package reports

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// What a killed worker has left goes when it is older than any report in work, and nothing else does.
func TestSweep(t *testing.T) {
	o := newOffice(t)
	now := time.Now()
	old := now.Add(-longest - time.Minute)
	for name, at := range map[string]time.Time{
		".concert-1.csv.7": old,
		".concert-2.csv.8": now, // another worker's
		"concert-3.csv":    old,
		"concert-4.csv.1":  old,
		".concert-5.csv":   old,
		".profile":         old,
	} {
		path := filepath.Join(o.folder, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	o.open(&sold{})()
	if want := []string{".concert-2.csv.8", ".concert-5.csv", ".profile", "concert-3.csv", "concert-4.csv.1"}; !slices.Equal(o.files(), want) {
		t.Errorf("%v, want %v", o.files(), want)
	}
}

// Who bought what is for the owner of the folder only, also while it is written.
func TestFileIsPrivate(t *testing.T) {
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	private := func(name string) {
		t.Helper()
		info, err := f.root.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	}
	err = f.write(t.Context(), "concert-1.csv", 7, func(io.Writer) error {
		private(".concert-1.csv.7")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	private("concert-1.csv")
}

// A run that has lost its permit leaves nothing.
func TestLostRunLeavesNothing(t *testing.T) {
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	lost := errors.New("lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	err = f.write(ctx, "concert-1.csv", 7, func(io.Writer) error {
		cancel(lost)
		return nil
	})
	if entries, _ := os.ReadDir(f.root.Name()); !errors.Is(err, lost) || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
