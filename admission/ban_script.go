package admission

import (
	"context"
	"math"
	"net/netip"
	"slices"
	"time"
)

// Defaults of a BanScript.
const (
	defaultBansPerMinute           = 60
	defaultWidest4, defaultWidest6 = 24, 48
)

// A BanScript configures the program that passes bans on to a firewall. This package only parses it.
type BanScript struct {
	Argv      []string // absolute path of the program, and its first arguments; empty: none
	PerMinute int      // maximum bans passed on within a minute
	Widest4   int      // shortest IPv4 prefix passed on, in bits
	Widest6   int      // the same for IPv6
}

// BanScript returns the script of the file. This package does not run it.
func (r *Rules) BanScript() BanScript {
	script := r.script
	script.Argv = slices.Clone(script.Argv)
	return script
}

// NeverBannedIn returns the list of `bans: {allow: …}` that contains an address of the network p, or "". Rules may ban a network around
// such an address and still admit that address; a firewall has no such exception.
func (r *Rules) NeverBannedIn(p netip.Prefix) (list string) {
	for _, l := range r.never {
		if l.overlaps(p) {
			return l.name
		}
	}
	return ""
}

// overlaps reports whether the list contains an address of p.
func (l *valueList) overlaps(p netip.Prefix) bool {
	if l.hasIP(p.Addr()) { // finds prefixes that contain p
		return true
	}
	for n := range l.nets {
		if p.Overlaps(n) {
			return true
		}
	}
	return false
}

// Prefix returns the network that a ban of an address or of a network excludes. ok is false for other targets, and for values that
// ParseBanTarget rejects.
func (t BanTarget) Prefix() (p netip.Prefix, ok bool) {
	if t.Kind != BanIP && t.Kind != BanNetwork {
		return netip.Prefix{}, false
	}
	p, err := t.prefix()
	return p, err == nil && p.IsValid()
}

// Lifted reports whether b was lifted by an operator.
func (b *Ban) Lifted() bool { return b.lifted() }

// A BanReader reads the bans of an installation from the store. It makes no decisions and does not count as a process of the
// installation. Make it with NewBanReader; it is safe for concurrent use.
type BanReader struct {
	store Store
	key   string
}

// NewBanReader returns a reader for the bans of gates with the same store and namespace.
func NewBanReader(store Store, namespace string) *BanReader {
	if namespace == "" {
		namespace = defaultNamespace
	}
	return &BanReader{store, (&keyring{namespace: namespace}).bans()}
}

// Find returns the current state of the ban of a canonical target, which may have ended, and the time on the store's clock. ok is false
// if the store has no ban of it. The error is the store's.
func (r *BanReader) Find(ctx context.Context, t BanTarget) (b Ban, at time.Time, ok bool, err error) {
	// No change number is that high, so the reply contains only the target.
	state, err := r.store.Exchange(ctx, r.key, BanNews{Since: math.MaxInt64, Ask: []BanTarget{t}})
	if err != nil {
		return Ban{}, time.Time{}, false, err
	}
	b, ok = state.find(t)
	return b, state.At, ok, nil
}

// Changed returns bans that changed after the change since, a few hundred at most; since 0 returns the bans in force. If more is true,
// call it again with next. The error is the store's.
func (r *BanReader) Changed(ctx context.Context, since int64) (bans []Ban, next int64, more bool, err error) {
	state, err := r.store.Exchange(ctx, r.key, BanNews{Since: since})
	if err != nil {
		return nil, 0, false, err
	}
	return state.Bans, state.Cursor, state.More, nil
}
