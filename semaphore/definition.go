package semaphore

import (
	"context"
	"time"
)

const (
	// DefaultLease is the lease of a Definition with Lease 0.
	DefaultLease = 15 * time.Second
	// MinLease and MaxLease bound a lease. A shorter lease could not be renewed in time; a longer one blocks a dead holder's permits.
	MinLease, MaxLease = time.Second, time.Hour
	// MaxLimit bounds a limit.
	MaxLimit = 1_000_000
)

// A Definition is the configuration of a semaphore. The one in force is in Redis, so that all processes use the same.
type Definition struct {
	// Limit is the maximum total weight of permits held at once. 0 grants nothing until it is raised.
	Limit int
	// Lease is how long a permit lasts without renewal. 0 means DefaultLease.
	Lease time.Duration
	// ExistedBefore means that the caller believes Redis has had this semaphore before. If Redis does not have it now, Redis has
	// lost its data, holders included. Nothing is then granted for one lease, in which the holders register again. That lease is
	// Lease, or a longer one that this process has recently seen in force.
	ExistedBefore bool
}

// RenewAfter is how long after a grant or a renewal a holder renews a lease: a third of it, so that two renewals may fail.
func RenewAfter(lease time.Duration) time.Duration { return lease / 3 }

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

// A Lookup returns the definition of a semaphore that Redis does not have: at its first use, or after Redis has lost its data. It returns
// ErrUnknown if there is none.
type Lookup func(ctx context.Context, name string) (Definition, error)
