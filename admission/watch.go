package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a change waits for the rest of it: an editor writes in several steps, and a file that was made empty
	// is filled a moment later.
	settle = 100 * time.Millisecond
	// recheck is how often files are looked at without a notice: a directory that was removed and made again sends none,
	// and some file systems never do.
	recheck = 10 * time.Second
)

// WatchFiles calls changed at the start, and again whenever one of the files may have changed, until ctx ends; it then returns nil.
// paths is asked again after each call.
//
// Watched are directories, not files, because editors and Kubernetes replace a file rather than write it: those of the files, and
// those of all links on the way to them. What is missing is waited for. The error means that nothing can be watched at all.
func WatchFiles(ctx context.Context, paths func() []string, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("admission: watch files: %w", err)
	}
	defer watcher.Close()
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	var seen []os.FileInfo
	for first := true; ; first = false {
		files := paths()
		watch(watcher, files)
		if now := settled(ctx, files); first || !slices.EqualFunc(seen, now, sameFile) {
			seen = now // before changed reads them, so that what happens meanwhile is a change
			changed()
			watch(watcher, paths())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-watcher.Errors: //nolint:errcheck // notices were lost: whatever the reason, the files are looked at
		case e := <-watcher.Events:
			// The first notice starts the wait and no other one prolongs it: a directory may be noisy for ever.
			if named := drain(ctx, watcher, e, files); named {
				seen = nil // as it is named, it changed, whatever its time says
			}
		}
	}
}

// drain takes up notices for a while, and reports whether one of them named a file.
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

// watch watches the directories of paths, and no others. One that is not there now will be when files are looked at again.
func watch(watcher *fsnotify.Watcher, paths []string) {
	var dirs []string
	for _, path := range paths {
		dirs = appendDirs(dirs, path)
	}
	for _, dir := range watcher.WatchList() {
		if !slices.Contains(dirs, dir) {
			_ = watcher.Remove(dir) // it may be gone
		}
	}
	for _, dir := range dirs {
		_ = watcher.Add(dir) // those that are watched stay so
	}
}

// appendDirs appends the directories whose entries decide what path is: its own, and that of each link on the way.
func appendDirs(dirs []string, path string) []string {
	path, err := filepath.Abs(path)
	if err != nil {
		return dirs
	}
	const sep = string(filepath.Separator)
	root := filepath.VolumeName(path) + sep
	at, rest := root, path[len(root):]
	for links := 0; links < 40; { // a link may lead to itself
		name, more, deeper := strings.Cut(rest, sep)
		next := filepath.Join(at, name)
		target, err := os.Readlink(next)
		switch {
		case err == nil: // a link
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

// settled looks at files once nobody is about to write them: a file that changed a moment ago may not yet be what it will be.
// A file that is written all the time is not waited for.
func settled(ctx context.Context, paths []string) (infos []os.FileInfo) {
	for range 10 {
		infos = look(paths)
		young := func(info os.FileInfo) bool { return info != nil && time.Since(info.ModTime()).Abs() < settle }
		if ctx.Err() != nil || !slices.ContainsFunc(infos, young) {
			break
		}
		pause(ctx, settle)
	}
	return infos
}

// look returns what is known of files without reading them; nil for one that is not there.
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
