package admission

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// InForce holds the rules in force, and follows the files that they came from. A Gate has one of its own; others are for processes that
// need the rules and decide nothing. Make it with NewInForce. It is safe for concurrent use.
type InForce struct {
	log   *slog.Logger
	rules atomic.Pointer[Rules]

	reloading sync.Mutex
	failed    atomic.Pointer[error] // of the last Reload; nil: it was well
}

// NewInForce puts rules into force. It starts nothing: see Run. A nil log is slog.Default().
func NewInForce(rules *Rules, log *slog.Logger) *InForce {
	if log == nil {
		log = slog.Default()
	}
	f := &InForce{log: log}
	f.rules.Store(rules)
	return f
}

// Rules returns the rules in force.
func (f *InForce) Rules() *Rules { return f.rules.Load() }

// set puts other rules into force.
func (f *InForce) set(rules *Rules) {
	f.reloading.Lock()
	defer f.reloading.Unlock()
	f.rules.Store(rules)
}

// Reload reads the files again that the rules in force came from, and returns the rules then in force. After an error, which is
// that of LoadRules, those are the old ones. Rules that were read from no file stay.
func (f *InForce) Reload() (*Rules, error) {
	f.reloading.Lock()
	defer f.reloading.Unlock()
	old := f.Rules()
	if old.load == nil {
		return old, nil
	}
	rules, err := old.load()
	if err != nil {
		f.failed.Store(&err)
		return old, err
	}
	f.failed.Store(nil)
	if rules.version == old.version && slices.Equal(rules.files, old.files) { // what names their files may have changed
		return old, nil
	}
	f.rules.Store(rules)
	return rules, nil
}

// Run reloads the rules whenever their files change, until ctx ends; it then returns nil. Rules that were read from no file have nothing to
// be followed.
func (f *InForce) Run(ctx context.Context) error {
	if f.Rules().load == nil {
		<-ctx.Done()
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() { every(ctx, pulseEvery, f.retry) })
	for ctx.Err() == nil {
		err := WatchFiles(ctx, func() []string { return f.Rules().Files() }, f.reloadQuietly)
		if err != nil {
			f.log.Warn("admission: rules are not followed, a change needs a reload", "error", err)
			pause(ctx, time.Minute)
		}
	}
	wg.Wait()
	return nil
}

// retry tries wrong rules again: what they lack may have come to a directory that nobody watches.
func (f *InForce) retry(context.Context) {
	if f.failed.Load() != nil {
		f.reloadQuietly()
	}
}

// reloadQuietly is Reload for nobody who asked: it says once what is new, or what is wrong.
func (f *InForce) reloadQuietly() {
	before, failed := f.Rules().version, f.failed.Load()
	rules, err := f.Reload()
	switch {
	case err != nil && (failed == nil || (*failed).Error() != err.Error()):
		f.log.Warn("admission: rules not loaded, the last good ones stay in force", "version", before, "error", err)
	case err == nil && rules.version != before:
		f.log.Info("admission: rules loaded", "version", rules.version)
	}
}
