package loadshed

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// An Allowance permits each subject burst actions at once, and then one every interval. Subjects are hashed into a fixed number
// of slots, so memory does not grow with their number, and all of them together are bounded. The hash is seeded, so clients
// cannot find out which subjects share a slot. Made by NewAllowance; safe for concurrent use.
type Allowance struct {
	burst int
	every time.Duration
	seed  maphash.Seed
	start time.Time
	full  [4096]atomic.Int64 // ns after start: when a slot has its whole burst again
}

// NewAllowance makes an allowance with room for burst actions, and one more every interval.
func NewAllowance(burst int, every time.Duration) *Allowance {
	return &Allowance{burst: burst, every: every, seed: maphash.MakeSeed(), start: time.Now()}
}

// Take reports whether a subject may act once more, and counts the action.
func (a *Allowance) Take(subject string, now time.Time) bool {
	place := &a.full[maphash.String(a.seed, subject)%uint64(len(a.full))]
	at := int64(now.Sub(a.start))
	for {
		was := place.Load()
		next := max(was, at) + int64(a.every)
		if next-at > int64(a.burst)*int64(a.every) {
			return false
		}
		if place.CompareAndSwap(was, next) {
			return true
		}
	}
}
