package admission

import (
	"context"
	"math"
	"net/netip"
	"slices"
	"time"
)

// What a rules file need not say of its BanScript.
const (
	defaultBansPerMinute           = 60
	defaultWidest4, defaultWidest6 = 24, 48
)

// A BanScript is what a rules file says of the program that a firewall is told of bans by. What runs it is not this package.
type BanScript struct {
	Argv      []string // the absolute path of the program, and its first arguments; empty: there is none
	PerMinute int      // bans that it may be told of within a minute
	Widest4   int      // length of the widest IPv4 prefix that it may be told of, in bits
	Widest6   int      // that of IPv6
}

// BanScript returns the script of the file. Rules do not run it.
func (r *Rules) BanScript() BanScript {
	script := r.script
	script.Argv = slices.Clone(script.Argv)
	return script
}

// NeverBannedIn returns the list of `bans: {allow: …}` that has some address of a network, or "". Rules let a network be banned around such an
// address, and let that address in all the same; a firewall knows nothing of the list.
func (r *Rules) NeverBannedIn(p netip.Prefix) (list string) {
	for _, l := range r.never {
		if l.overlaps(p) {
			return l.name
		}
	}
	return ""
}

// overlaps reports whether the list has some address of p.
func (l *valueList) overlaps(p netip.Prefix) bool {
	if l.hasIP(p.Addr()) { // whatever is wider than p
		return true
	}
	for n := range l.nets {
		if p.Overlaps(n) {
			return true
		}
	}
	return false
}

// Prefix returns the network that a ban of an address or of a network excludes. ok is false for other targets, and for what
// ParseBanTarget would refuse.
func (t BanTarget) Prefix() (p netip.Prefix, ok bool) {
	if t.Kind != BanIP && t.Kind != BanNetwork {
		return netip.Prefix{}, false
	}
	p, err := t.prefix()
	return p, err == nil && p.IsValid()
}

// Lifted reports whether b was ended by hand.
func (b *Ban) Lifted() bool { return b.lifted() }

// A BanReader reads the bans of an installation where they are kept, and takes no part in deciding: to other processes it is not there.
// Make it with NewBanReader; it is safe for concurrent use.
type BanReader struct {
	store Store
	key   string
}

// NewBanReader returns a reader of what gates with the same store and namespace ban.
func NewBanReader(store Store, namespace string) *BanReader {
	if namespace == "" {
		namespace = defaultNamespace
	}
	return &BanReader{store, (&keyring{namespace: namespace}).bans()}
}

// Find returns the ban of a canonical target as it is now, which may be over, and the time by the store's clock. ok is false if the store
// knows of none. The error is the store's.
func (r *BanReader) Find(ctx context.Context, t BanTarget) (b Ban, at time.Time, ok bool, err error) {
	// No change is as late as that, so the answer has nothing else.
	state, err := r.store.Exchange(ctx, r.key, BanNews{Since: math.MaxInt64, Ask: []BanTarget{t}})
	if err != nil {
		return Ban{}, time.Time{}, false, err
	}
	b, ok = state.find(t)
	return b, state.At, ok, nil
}

// Changed returns the bans that have changed since a change, 0 for those in force, some hundred at most; more says that there are others,
// since next. The error is the store's.
func (r *BanReader) Changed(ctx context.Context, since int64) (bans []Ban, next int64, more bool, err error) {
	state, err := r.store.Exchange(ctx, r.key, BanNews{Since: since})
	if err != nil {
		return nil, 0, false, err
	}
	return state.Bans, state.Cursor, state.More, nil
}
