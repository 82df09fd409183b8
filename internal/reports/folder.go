package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"time"
)

// A folder has files that appear when they are whole. No name leaves it.
type folder struct{ root *os.Root }

func openFolder(path string) (folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return folder{}, fmt.Errorf("reports: %w", err)
	}
	return folder{root}, nil
}

func (f folder) close() error { return f.root.Close() }

// write makes the file appear when it is whole, readable only by its owner: it names the buyers. Until then it has a name that no
// other run has, also when one goes on that has lost its permit.
func (f folder) write(ctx context.Context, name string, token int64, content func(io.Writer) error) error {
	part := "." + name + "." + strconv.FormatInt(token, 10)
	out, err := f.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = content(out)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = f.root.Rename(part, name)
	}
	if err != nil {
		return errors.Join(err, f.root.Remove(part))
	}
	return nil
}

var parts = regexp.MustCompile(`^\..+\.csv\.[0-9]+$`)

// sweep removes what killed workers have left: parts that were last written to before any report began that may still be in work. Other
// workers may have the same folder.
func (f folder) sweep(before time.Time) error {
	entries, err := fs.ReadDir(f.root.FS(), ".")
	for _, e := range entries {
		if !parts.MatchString(e.Name()) {
			continue
		}
		info, e2 := e.Info()
		if e2 == nil && info.Mode().IsRegular() && info.ModTime().Before(before) {
			e2 = f.root.Remove(e.Name())
		}
		if !errors.Is(e2, fs.ErrNotExist) { // else another worker was faster
			err = errors.Join(err, e2)
		}
	}
	return err
}
