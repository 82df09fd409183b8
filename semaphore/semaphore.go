package semaphore

import (
	"context"
	"sync/atomic"
	"time"
)

// Options of a Semaphore that is defined by a program.
type Options struct {
	// Limit is the maximum total weight of permits held at once; 0 grants nothing until it is raised. The definition is written to Redis
	// at the first use, and again if Redis has lost it. If several programs define a semaphore differently, the last first use wins. See
	// also Define.
	Limit int
	// Lease is how long a permit lasts without renewal. 0 means DefaultLease.
	Lease time.Duration
	// Namespace and Holder are as in SetOptions.
	Namespace, Holder string
}

// A Semaphore grants permits to callers in any number of processes, never more than its limit at once. Make it with New or Set.Semaphore;
// it is safe for concurrent use.
type Semaphore struct {
	set   *Set
	shard *shard
	name  string

	own     *Definition // nil if made by Set.Semaphore
	defined atomic.Bool // own was written to Redis
}

// New returns a semaphore with a private Set, defined by opts at its first use; start its Run. The caller closes rdb.
func New(rdb Client, name string, opts Options) (*Semaphore, error) {
	def := Definition{Limit: opts.Limit, Lease: opts.Lease}
	if err := def.check(); err != nil {
		return nil, err
	}
	set, err := NewSet(rdb, SetOptions{
		Namespace: opts.Namespace, Holder: opts.Holder,
		Lookup: func(_ context.Context, asked string) (Definition, error) {
			if asked != name {
				return Definition{}, ErrUnknown
			}
			return def, nil
		},
	})
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

// Run is Set.Run for a semaphore made by New. For a semaphore of a Set run the Set.
func (s *Semaphore) Run(ctx context.Context) error { return s.set.Run(ctx) }

// Define replaces the definition of the semaphore for all processes. A higher limit admits waiters at once, a lower one evicts no holder.
// A new lease applies from the next renewal on. An identical definition changes nothing.
func (s *Semaphore) Define(ctx context.Context, def Definition) error {
	if err := def.check(); err != nil {
		return err
	}
	return s.shard.define(ctx, s.name, def, false)
}

// Undefine removes the definition: new acquisitions get ErrUnknown, and holders keep their permits until they release them.
func (s *Semaphore) Undefine(ctx context.Context) error {
	return s.shard.define(ctx, s.name, Definition{Limit: -1}, false)
}

// A Refusal is the answer to an acquisition that got no permit because all were taken.
type Refusal struct {
	Position int           // last known position in the queue, from 1; for a caller that did not wait, the position it would have had
	Wait     time.Duration // estimated time until its turn; 0: unknown
}

// Acquire waits for a permit until ctx ends, and renews it until it is released. It returns a permit, or a refusal when ctx has
// ended, or an error: ErrUnknown, ErrClosed, that of ctx if it ended before an answer, or that of Redis or of the Lookup if the
// outcome is unknown.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, *Refusal, error) {
	return s.AcquireWith(ctx, Request{})
}

// TryAcquire does not wait: it returns a refusal if no permit is free.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, *Refusal, error) {
	return s.AcquireWith(ctx, Request{Try: true})
}

// AcquireWith is Acquire with all parameters. The error may also be ErrTooHeavy or ErrInvalid.
func (s *Semaphore) AcquireWith(ctx context.Context, r Request) (*Permit, *Refusal, error) {
	h, full, err := s.acquire(ctx, r)
	if full != nil || err != nil {
		return nil, full, err
	}
	return newPermit(s.shard, h), nil, nil
}

// A Grant is a permit that its holder renews and releases by ID, for holders outside this process.
type Grant struct {
	ID    string
	Token int64         // the fencing token
	Lease time.Duration // measured from the request
}

// Grant is AcquireWith for a permit that this process does not renew.
func (s *Semaphore) Grant(ctx context.Context, r Request) (*Grant, *Refusal, error) {
	h, full, err := s.acquire(ctx, r)
	if full != nil || err != nil {
		return nil, full, err
	}
	return &Grant{ID: h.id(), Token: h.token, Lease: h.lease}, nil, nil
}

func (s *Semaphore) acquire(ctx context.Context, r Request) (held, *Refusal, error) {
	t, err := s.ticket(r)
	if err != nil {
		return held{}, nil, err
	}
	if s.own != nil && !s.defined.Load() {
		if err := s.Define(ctx, *s.own); err != nil {
			return held{}, nil, err
		}
		s.defined.Store(true)
	}
	return s.shard.acquire(ctx, t, r)
}

// Renew restarts the lease of the permit, and returns its length. ErrPermitLost means that it had expired or was released.
func (s *Semaphore) Renew(ctx context.Context, id string) (time.Duration, error) {
	t, err := s.parseID(id)
	if err != nil {
		return 0, err
	}
	lease, _, err := s.shard.renew(ctx, t)
	return lease, err
}

// Release gives the permit back, whoever holds it: a Permit's context is cancelled at once with ErrPermitLost. Releasing an ended permit
// is no error. Release retries until ctx ends.
func (s *Semaphore) Release(ctx context.Context, id string) error {
	t, err := s.parseID(id)
	if err != nil {
		return err
	}
	if err := s.shard.release(ctx, t); err != nil {
		return err
	}
	s.shard.lost(t.key, t.token)
	return nil
}
