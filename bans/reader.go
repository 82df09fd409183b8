package bans

import (
	"context"
	"math"
	"time"
)

// A Reader reads the bans of an installation from the store. It makes no decisions and does not count as a process of the
// installation. Make it with NewReader; it is safe for concurrent use.
type Reader struct {
	store Store
	key   string
}

// NewReader returns a reader for the bans in store of the lists with this namespace; empty means "tidegate".
func NewReader(store Store, namespace string) *Reader {
	return &Reader{store, keyOfBans(namespace)}
}

// Find returns the current state of the ban of a canonical target, which may have ended, and the time on the store's clock. ok is false
// if the store has no ban of it. The error is the store's.
func (r *Reader) Find(ctx context.Context, t Target) (b Ban, at time.Time, ok bool, err error) {
	// No change number is that high, so the reply contains only the target.
	state, err := r.store.Exchange(ctx, r.key, News{Since: math.MaxInt64, Ask: []Target{t}})
	if err != nil {
		return Ban{}, time.Time{}, false, err
	}
	b, ok = state.find(t)
	return b, state.At, ok, nil
}

// Changed returns bans that changed after the change since, a few hundred at most; since 0 returns the bans in force. If more is true,
// call it again with next. The error is the store's.
func (r *Reader) Changed(ctx context.Context, since int64) (bans []Ban, next int64, more bool, err error) {
	state, err := r.store.Exchange(ctx, r.key, News{Since: since})
	if err != nil {
		return nil, 0, false, err
	}
	return state.Bans, state.Cursor, state.More, nil
}
