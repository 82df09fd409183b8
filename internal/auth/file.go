package auth

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/tidegate/tidegate/internal/filewatch"
)

func readFile(path string, load func([]byte) error) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("auth: %w", err)
	}
	if err := load(content); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// watchFile loads a file whenever its content changes, until ctx ends. Content that does not load changes nothing.
func watchFile(ctx context.Context, path string, log *slog.Logger, load func([]byte) error) error {
	if path == "" {
		<-ctx.Done()
		return nil
	}
	var last []byte
	return filewatch.Watch(ctx, func() []string { return []string{path} }, func() {
		content, err := os.ReadFile(path)
		if err != nil || bytes.Equal(content, last) {
			return
		}
		last = content
		if err := load(content); err != nil {
			log.Warn("file not loaded, the last good content stays in force", "file", path, "error", err)
		} else {
			log.Info("file loaded", "file", path)
		}
	})
}
