// Package reload reads the content of a setting again while a process runs, such as a file of keys, and records whether that works.
package reload

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/bounded"
	"github.com/tidegate/tidegate/internal/filewatch"
	"github.com/tidegate/tidegate/internal/periodic"
)

// retryEvery is how often files are read again after an error: a missing file may have appeared in a directory that is not watched.
const retryEvery = 5 * time.Second

// State is the result of the reads so far.
type State struct {
	Setting string    // the variable that names the file or URL, such as TOKENS_FILE
	Loaded  time.Time // when the content in force was read last
	Failed  bool      // a later read failed: the content in force may be outdated
}

// A Source is the content of a setting. Content that cannot be read or is invalid changes nothing. Made by New; safe for concurrent use.
type Source struct {
	setting string
	log     *slog.Logger
	read    func(context.Context) ([]byte, error)
	use     func([]byte) error

	loading sync.Mutex // held during a read; guards content
	content []byte     // in force

	mu     sync.Mutex
	loaded time.Time
	err    error // of the last read
}

// New returns the source of a setting. read reads its content; use puts it into force, or returns an error and changes nothing. It is not
// called again with the content in force. The texts of errors are logged.
func New(setting string, log *slog.Logger, read func(context.Context) ([]byte, error), use func([]byte) error) *Source {
	return &Source{setting: setting, log: log, read: read, use: use}
}

// fileMost is more bytes than a file of tokens or keys has.
const fileMost = 4 << 20

// File returns the source of a setting that names one file, of at most 4 MiB. Errors of use get the path in front.
func File(setting, path string, log *slog.Logger, use func([]byte) error) *Source {
	read := func(context.Context) ([]byte, error) { return bounded.File(path, fileMost) }
	return New(setting, log, read, func(content []byte) error {
		if err := use(content); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}

// Load reads the content now. The error is that of read or use.
func (s *Source) Load(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	content, err := s.read(ctx)
	changed := err == nil && (s.content == nil || !bytes.Equal(content, s.content))
	if changed {
		err = s.use(content)
	}
	if ctx.Err() != nil && err != nil { // the process ends
		return err
	}
	s.mu.Lock()
	before, first := s.err, s.loaded.IsZero()
	if s.err = err; err == nil {
		s.loaded = time.Now()
	}
	s.mu.Unlock()
	if err == nil {
		s.content = append([]byte{}, content...)
	}
	switch {
	case first: // the caller reports the error
	case err != nil && (before == nil || before.Error() != err.Error()):
		s.log.WarnContext(ctx, "not reloaded, the last good content stays in force", slog.String("setting", s.setting), slog.Any("error", err))
	case err == nil && (changed || before != nil):
		s.log.InfoContext(ctx, "reloaded", slog.String("setting", s.setting))
	}
	return err
}

// State returns the result of the reads so far.
func (s *Source) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{Setting: s.setting, Loaded: s.loaded, Failed: s.err != nil}
}

// Watch loads the content whenever one of its files changes, until ctx ends. It then returns nil.
func (s *Source) Watch(ctx context.Context, files ...string) error {
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = periodic.Every(ctx, retryEvery, func() {
			if s.State().Failed {
				_ = s.Load(ctx) // it is logged
			}
		})
	})
	for ctx.Err() == nil {
		err := filewatch.Watch(ctx, func() []string { return files }, func() { _ = s.Load(ctx) })
		if err != nil {
			s.log.WarnContext(ctx, "changes of a file are not noticed, and need a restart", slog.String("setting", s.setting),
				slog.Any("error", err))
			periodic.Pause(ctx, time.Minute)
		}
	}
	wg.Wait()
	return nil
}
