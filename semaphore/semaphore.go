package semaphore

import (
	"context"
	"sync/atomic"
	"time"
)

// Options of a Semaphore that a program defines itself.
type Options struct {
	// Limit is how much weight may be held at once; 0 lets nobody in until it grows. Redis is told at the first use, and when it does not know
	// the semaphore any more: of several programs that define one differently, the last to use it for the first time is right. See also Define.
	Limit int
	// Lease is how long a permit lasts without renewal. 0 means DefaultLease.
	Lease time.Duration
	// Namespace and Holder are as in SetOptions.
	Namespace, Holder string
}

// A Semaphore hands out permits: never more than its limit at once, to whoever asks in whatever process. Make it with New or by a Set; it is
// safe for concurrent use.
type Semaphore struct {
	set  *Set
	lane *lane
	name string

	own     *Definition // nil for one of a Set
	defined atomic.Bool // Redis was told of own
}

// New returns a semaphore in a Set of its own, defined by opts at its first use. rdb stays the caller's.
func New(rdb Client, name string, opts Options) (*Semaphore, error) {
	def := Definition{Limit: opts.Limit, Lease: opts.Lease}
	if err := def.check(); err != nil {
		return nil, err
	}
	set, err := NewSet(rdb, SetOptions{Namespace: opts.Namespace, Holder: opts.Holder, Lookup: func(_ context.Context, asked string) (Definition, error) {
		if asked != name {
			return Definition{}, ErrUnknown
		}
		return def, nil
	}})
	if err != nil {
		return nil, err
	}
	s, err := set.Semaphore(name)
	if err != nil {
		return nil, err
	}
	s.own = &def
	return s, nil
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.name }

// Close ends what a semaphore made by New has started, as Set.Close does. One of a Set ends with its Set.
func (s *Semaphore) Close() error {
	if s.own == nil {
		return nil
	}
	return s.set.Close()
}

// Define says what the semaphore is from now on, to all processes. A larger limit lets waiters in at once, a smaller one evicts nobody. A
// new lease counts from the next renewal on. Nothing changes where the definition is the same.
func (s *Semaphore) Define(ctx context.Context, def Definition) error {
	if err := def.check(); err != nil {
		return err
	}
	return s.lane.define(ctx, s.name, def, false)
}

// Undefine takes the definition back: the semaphore is unknown to those who come, and holders go on until they release their permits.
func (s *Semaphore) Undefine(ctx context.Context) error {
	return s.lane.define(ctx, s.name, Definition{Limit: -1}, false)
}

// Acquire waits for a permit until ctx ends, and renews it until it is released. The error is a CapacityError when ctx has ended, ErrUnknown,
// ErrClosed, or that of Redis or of the Lookup, when nothing could be decided.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	return s.AcquireWith(ctx, Request{})
}

// TryAcquire does not wait: its error is a CapacityError when there is no permit.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	return s.AcquireWith(ctx, Request{Try: true})
}

// AcquireWith is Acquire with all that can be asked for. ErrTooHeavy and ErrInvalid come besides.
func (s *Semaphore) AcquireWith(ctx context.Context, r Request) (*Permit, error) {
	h, err := s.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	return newPermit(s.lane, h), nil
}

// A Grant is a permit that its holder renews and releases by its ID, as one outside this process does.
type Grant struct {
	ID    string
	Token int64         // the fencing token
	Lease time.Duration // from when it was asked for
}

// Grant is AcquireWith for a permit that nothing in this process renews.
func (s *Semaphore) Grant(ctx context.Context, r Request) (Grant, error) {
	h, err := s.acquire(ctx, r)
	if err != nil {
		return Grant{}, err
	}
	return Grant{ID: h.id(), Token: h.token, Lease: h.lease}, nil
}

func (s *Semaphore) acquire(ctx context.Context, r Request) (held, error) {
	t, err := s.ticket(r)
	if err != nil {
		return held{}, err
	}
	if s.own != nil && !s.defined.Load() {
		if err := s.Define(ctx, *s.own); err != nil {
			return held{}, err
		}
		s.defined.Store(true)
	}
	return s.lane.acquire(ctx, t, r)
}

// Renew makes the lease of the permit begin anew, and returns how long it is. ErrPermitLost says that it was over.
func (s *Semaphore) Renew(ctx context.Context, id string) (time.Duration, error) {
	t, err := s.parseID(id)
	if err != nil {
		return 0, err
	}
	lease, _, err := s.lane.renew(ctx, t)
	return lease, err
}

// Release gives the permit back, whoever holds it: a Permit's context ends at once with ErrPermitLost. A permit that is over already is no
// error. It is tried until ctx ends.
func (s *Semaphore) Release(ctx context.Context, id string) error {
	t, err := s.parseID(id)
	if err != nil {
		return err
	}
	if err := s.lane.release(ctx, t); err != nil {
		return err
	}
	s.lane.lost(t.key, t.token)
	return nil
}
