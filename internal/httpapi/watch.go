package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

func readFile(path string, load func([]byte) error) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("httpapi: %w", err)
	}
	if err := load(content); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// watchFile loads a file whenever its content changes, until ctx ends. It
// watches the directory, because editors and Kubernetes replace a file rather
// than write it. A content that does not load changes nothing.
func watchFile(ctx context.Context, path string, log *slog.Logger, load func([]byte) error) error {
	if path == "" {
		<-ctx.Done()
		return nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("httpapi: watch %s: %w", path, err)
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("httpapi: watch %s: %w", path, err)
	}
	var last []byte
	for {
		// The first turn catches a change between the first load and the watch.
		if content, err := os.ReadFile(path); err == nil && !bytes.Equal(content, last) {
			last = content
			if err := load(content); err != nil {
				log.Warn("file not loaded, the last good content stays in force", "file", path, "error", err)
			} else {
				log.Info("file loaded", "file", path)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-watcher.Events:
		case err := <-watcher.Errors:
			log.Warn("watching a file", "file", path, "error", err)
		}
	}
}
