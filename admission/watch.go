package admission

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long files have to be quiet: an editor writes in several steps.
const settle = 100 * time.Millisecond

// WatchFiles calls changed whenever one of the files may have changed, and once at the start, until ctx ends; it then returns nil.
// paths is asked again after each call. Watched are the files' directories, because editors and Kubernetes replace a file rather
// than write it; a file that is missing for a while is waited for. The error means that nothing can be watched.
func WatchFiles(ctx context.Context, paths func() []string, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("admission: watch files: %w", err)
	}
	defer watcher.Close()
	watched := map[string]bool{}
	for {
		for _, path := range paths() {
			dir := filepath.Dir(path)
			if watched[dir] {
				continue
			}
			if err := watcher.Add(dir); err != nil {
				return fmt.Errorf("admission: watch %s: %w", dir, err)
			}
			watched[dir] = true
		}
		changed() // first for what happened before the watch began
		quiet := time.NewTimer(settle)
		quiet.Stop()
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return nil
			case <-watcher.Events:
				quiet.Reset(settle)
			case <-watcher.Errors: // events were lost
				quiet.Reset(settle)
			case <-quiet.C:
				waiting = false
			}
		}
	}
}
