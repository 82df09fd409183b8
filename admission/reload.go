package admission

import (
	"context"
	"slices"
	"time"
)

// Reload reads the files again that the rules in force came from, and returns the rules then in force. After an error, which is
// that of LoadRules, those are the old ones. Rules that were read from no file stay.
func (g *Gate) Reload() (*Rules, error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	old := g.Rules()
	if old.load == nil {
		return old, nil
	}
	rules, err := old.load()
	if err != nil {
		g.reloadError.Store(&err)
		return old, err
	}
	g.reloadError.Store(nil)
	if rules.version == old.version && slices.Equal(rules.files, old.files) { // what names their files may have changed
		return old, nil
	}
	g.rules.Store(rules)
	return rules, nil
}

// followRules reloads the rules whenever their files change.
func (g *Gate) followRules(ctx context.Context) {
	if g.Rules().load == nil {
		return
	}
	for ctx.Err() == nil {
		err := WatchFiles(ctx, func() []string { return g.Rules().Files() }, func() { g.reloadQuietly() })
		if err != nil {
			g.opts.Logger.Warn("admission: rules are not followed, a change needs a reload", "error", err)
			pause(ctx, time.Minute)
		}
	}
}

// retryRules tries wrong rules again: what they lack may have come to a directory that nobody watches.
func (g *Gate) retryRules(context.Context) {
	if g.reloadError.Load() != nil {
		g.reloadQuietly()
	}
}

// reloadQuietly is Reload for nobody who asked: it says once what is new, or what is wrong.
func (g *Gate) reloadQuietly() {
	before, failed := g.Rules().version, g.reloadError.Load()
	rules, err := g.Reload()
	switch {
	case err != nil && (failed == nil || (*failed).Error() != err.Error()):
		g.opts.Logger.Warn("admission: rules not loaded, the last good ones stay in force", "version", before, "error", err)
	case err == nil && rules.version != before:
		g.opts.Logger.Info("admission: rules loaded", "version", rules.version)
	}
}
