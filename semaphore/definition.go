package semaphore

import (
	"context"
	"time"
)

const (
	// DefaultLease is the lease of a Definition that has none.
	DefaultLease = 15 * time.Second
	// MinLease and MaxLease bound a lease. A shorter one could not be renewed in time, a longer one keeps a dead holder's permits.
	MinLease, MaxLease = time.Second, time.Hour
	// MaxLimit bounds a limit.
	MaxLimit = 1_000_000
)

// A Definition says what a semaphore is. The one in force stands in Redis, so that all processes use the same.
type Definition struct {
	// Limit is how much weight may be held at once. 0 lets nobody in until it grows.
	Limit int
	// Lease is how long a permit lasts without renewal. 0 means DefaultLease.
	Lease time.Duration
	// Existed says that Redis has had this semaphore before, as far as whoever defines it can know. Where it is not there all the same,
	// Redis has lost its memory, holders with it, and nothing is granted for one lease while they register again: this one, or a longer one that
	// this process has seen to be in force lately.
	Existed bool
}

func (d *Definition) check() error {
	if d.Lease == 0 {
		d.Lease = DefaultLease
	}
	if d.Limit < 0 || d.Limit > MaxLimit {
		return invalid("limit is %d, should be 0 to %d", d.Limit, MaxLimit)
	}
	if d.Lease < MinLease || d.Lease > MaxLease {
		return invalid("lease is %v, should be %v to %v", d.Lease, MinLease, MaxLease)
	}
	return nil
}

// A Lookup finds the definition of a semaphore that Redis does not know: at its first use, or when Redis has lost its memory. It returns
// ErrUnknown where there is none.
type Lookup func(ctx context.Context, name string) (Definition, error)
