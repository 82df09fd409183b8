package rules

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/internal/filewatch"
	"github.com/tidegate/tidegate/internal/periodic"
)

// retryEvery is how often the rules are read again after an error.
const retryEvery = 5 * time.Second

// Live holds the rules in force, and follows their files. Each Gate has one; a separate Live is for processes that need the rules
// but decide nothing. Make it with NewLive. It is safe for concurrent use.
type Live struct {
	log   *slog.Logger
	rules atomic.Pointer[Set]

	reloading sync.Mutex
	failed    atomic.Pointer[error] // error of the last Reload; nil: it succeeded
	loaded    atomic.Int64          // Unix time in nanoseconds
}

// NewLive puts rules, whose Err must be nil, into force. It starts no goroutine: see Run. A nil log is slog.Default().
func NewLive(rules *Set, log *slog.Logger) *Live {
	if log == nil {
		log = slog.Default()
	}
	f := &Live{log: log}
	f.rules.Store(rules)
	f.loaded.Store(time.Now().UnixNano())
	return f
}

// Rules returns the rules in force.
func (f *Live) Rules() *Set { return f.rules.Load() }

// Set replaces the rules in force. The error is that of Set.Err; the old rules then stay in force.
func (f *Live) Set(rules *Set) error {
	if err := rules.Err(); err != nil {
		return err
	}
	f.reloading.Lock()
	defer f.reloading.Unlock()
	f.rules.Store(rules)
	f.loaded.Store(time.Now().UnixNano())
	return nil
}

// Loaded returns when the rules in force were read last.
func (f *Live) Loaded() time.Time { return time.Unix(0, f.loaded.Load()) }

// Failed reports whether the last Reload failed.
func (f *Live) Failed() bool { return f.failed.Load() != nil }

// Reload reads the files of the rules in force again and returns the rules then in force. On error, which is that of Load, or
// that the file of a list with values has become empty, the old rules stay in force. Rules that were not read from a file stay unchanged.
func (f *Live) Reload() (*Set, error) {
	f.reloading.Lock()
	defer f.reloading.Unlock()
	old := f.Rules()
	if old.load == nil {
		return old, nil
	}
	rules, err := old.load()
	if err == nil {
		err = rules.Err()
	}
	if err == nil {
		err = rules.emptied(old)
	}
	if err != nil {
		f.failed.Store(&err)
		return old, err
	}
	f.failed.Store(nil)
	f.loaded.Store(time.Now().UnixNano())
	if rules.version == old.version && slices.Equal(rules.files, old.files) { // equal content may come from other files now
		return old, nil
	}
	f.rules.Store(rules)
	return rules, nil
}

// Run reloads the rules whenever their files change, until ctx ends; it then returns nil. Rules that were not read from a file never
// change.
func (f *Live) Run(ctx context.Context) error {
	if f.Rules().load == nil {
		<-ctx.Done()
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = periodic.Every(ctx, retryEvery, f.retry) })
	for ctx.Err() == nil {
		err := filewatch.Watch(ctx, func() []string { return f.Rules().Files() }, f.reloadQuietly)
		if err != nil {
			f.log.Warn("admission: rules are not followed, a change needs a reload", "error", err)
			periodic.Pause(ctx, time.Minute)
		}
	}
	wg.Wait()
	return nil
}

// retry reloads after an error: a missing file may have appeared in a directory that is not watched.
func (f *Live) retry() {
	if f.failed.Load() != nil {
		f.reloadQuietly()
	}
}

// reloadQuietly reloads and logs new rules, and each new error once.
func (f *Live) reloadQuietly() {
	before, failed := f.Rules().version, f.failed.Load()
	rules, err := f.Reload()
	switch {
	case err != nil && (failed == nil || (*failed).Error() != err.Error()):
		f.log.Warn("admission: rules not loaded, the last good ones stay in force", "version", before, "error", err)
	case err == nil && rules.version != before:
		f.log.Info("admission: rules loaded", "version", rules.version)
	}
}
