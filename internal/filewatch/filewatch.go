// Package filewatch reports changes of files.
package filewatch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/tidegate/tidegate/internal/periodic"
)

const (
	// settle is how long to wait after a change for further ones: editors write in several steps, and a truncated file is filled a moment
	// later.
	settle = 100 * time.Millisecond
	// recheck is how often files are checked without a notice: a directory that is removed and recreated sends none, and some file
	// systems never send any.
	recheck = 10 * time.Second
)

// Watch calls changed at the start, and again whenever one of the files may have changed, until ctx ends; it then returns nil. It
// calls paths again after each call of changed.
//
// It watches directories, not files, because editors and Kubernetes replace a file rather than write it: the directories of the files,
// and those of all symbolic links on the way to them. Missing files may appear later. The error means that nothing can be watched at all.
func Watch(ctx context.Context, paths func() []string, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("filewatch: %w", err)
	}
	defer watcher.Close()
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	var seen []os.FileInfo
	for first := true; ; first = false {
		files := paths()
		watch(watcher, files)
		if now := settled(ctx, files); first || !slices.EqualFunc(seen, now, sameFile) {
			seen = now // before changed reads them, so that concurrent writes count as changes
			changed()
			watch(watcher, paths())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-watcher.Errors: //nolint:errcheck // notices were lost: whatever the reason, the files are looked at
		case e := <-watcher.Events:
			// The first notice starts the wait and later ones do not prolong it: a directory may change all the time.
			if named := drain(ctx, watcher, e, files); named {
				seen = nil // a notice for the file counts as a change, whatever its modification time
			}
		}
	}
}

// drain consumes notices for a while, and reports whether one of them named a file.
func drain(ctx context.Context, watcher *fsnotify.Watcher, e fsnotify.Event, files []string) (named bool) {
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for {
		named = named || slices.ContainsFunc(files, func(path string) bool { return filepath.Base(path) == filepath.Base(e.Name) })
		select {
		case <-ctx.Done():
			return named
		case <-quiet.C:
			return named
		case e = <-watcher.Events:
		}
	}
}

// watch watches the directories of paths, and no others. Missing directories are retried at the next check of the files.
func watch(watcher *fsnotify.Watcher, paths []string) {
	var dirs []string
	for _, path := range paths {
		dirs = appendDirs(dirs, path)
	}
	for _, dir := range watcher.WatchList() {
		if !slices.Contains(dirs, dir) {
			_ = watcher.Remove(dir) // it may have been removed
		}
	}
	for _, dir := range dirs {
		_ = watcher.Add(dir) // adding a watched directory has no effect
	}
}

// appendDirs appends the directories whose entries determine what path refers to: its own, and that of each link on the way.
func appendDirs(dirs []string, path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return dirs
	}
	const sep = string(filepath.Separator)
	root := filepath.VolumeName(path) + sep
	at, rest := root, path[len(root):]
	for links := 0; links < 40; { // stops at link cycles
		name, more, deeper := strings.Cut(rest, sep)
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		switch {
		case err == nil: // a symbolic link
			links++
			dirs = append(dirs, at)
			if filepath.IsAbs(target) {
				at, target = root, strings.TrimPrefix(target, root)
			}
			rest = filepath.Join(target, more)
		case deeper:
			at, rest = next, more
		default:
			return append(dirs, at)
		}
	}
	return dirs
}

// settled returns the state of files after a pause in writing: a file that changed a moment ago may be incomplete. It does not wait
// indefinitely for a file that is written all the time.
func settled(ctx context.Context, paths []string) (infos []os.FileInfo) {
	for range 10 {
		infos = look(paths)
		young := func(info os.FileInfo) bool { return info != nil && time.Since(info.ModTime()).Abs() < settle }
		if ctx.Err() != nil || !slices.ContainsFunc(infos, young) {
			break
		}
		periodic.Pause(ctx, settle)
	}
	return infos
}

// look returns the file information of paths; nil for a missing file.
func look(paths []string) []os.FileInfo {
	infos := make([]os.FileInfo, len(paths))
	for i, path := range paths {
		infos[i], _ = os.Stat(path)
	}
	return infos
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
