package httpapi

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// An allowance lets each of any number of subjects do something so many times at once, and then once in a while. Subjects share places by
// hash, so that it needs no memory for each and bounds all of them together. Nobody can tell who shares a place with whom. Made by
// newAllowance; safe for concurrent use.
type allowance struct {
	burst int
	every time.Duration
	seed  maphash.Seed
	start time.Time
	full  [4096]atomic.Int64 // ns after start: when a place has its whole burst again
}

func newAllowance(burst int, every time.Duration) *allowance {
	return &allowance{burst: burst, every: every, seed: maphash.MakeSeed(), start: time.Now()}
}

// take tells whether a subject may do it once more, and counts that it does.
func (a *allowance) take(subject string, now time.Time) bool {
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
