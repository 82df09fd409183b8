package semaphore

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Permit is held from Acquire to Release. It is renewed every third of its lease. It is safe for concurrent use.
type Permit struct {
	shard  *shard
	ticket ticket
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	ends   *time.Timer   // guarded by mu: ends the permit when the lease is over
	renews *time.Timer   // guarded by mu
	lease  time.Duration // guarded by mu
	until  time.Time     // guarded by mu: the end of the lease
	over   bool          // guarded by mu: released or lost
}

// newPermit returns the permit for h. Its lease is measured from when h was requested, which is never later than its start in Redis.
func newPermit(sh *shard, h held) *Permit {
	p := &Permit{shard: sh, ticket: h.ticket, lease: h.lease, until: h.since.Add(h.lease)}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = time.AfterFunc(time.Until(p.until), p.expire)
	p.renews = time.AfterFunc(time.Until(h.since.Add(RenewAfter(h.lease))), p.renew)
	if !sh.register(p) {
		p.end(ErrClosed)
	}
	return p
}

// Context returns a context that is cancelled when the permit is released, and with cause ErrPermitLost when it is lost. Use it, or
// WithContext, for the work.
func (p *Permit) Context() context.Context { return p.ctx }

// WithContext returns a copy of ctx that is also cancelled when the permit ends, with the same cause. Call cancel when the work is done.
func (p *Permit) WithContext(ctx context.Context) (work context.Context, cancel context.CancelFunc) {
	work, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.ctx, func() { end(context.Cause(p.ctx)) })
	return work, func() {
		stop()
		end(nil)
	}
}

// Token returns the fencing token, which is larger than that of all earlier permits of these semaphores. The resource that the work
// writes to should reject a token smaller than one it has seen.
func (p *Permit) Token() int64 { return p.ticket.token }

// ID returns the permit's ID for Semaphore.Renew and Semaphore.Release.
func (p *Permit) ID() string { return p.ticket.id() }

// Renew renews the permit now. ErrPermitLost means that it has expired or was released.
func (p *Permit) Renew(ctx context.Context) error {
	lease, sent, err := p.shard.renew(ctx, p.ticket)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return ErrPermitLost
	case errors.Is(err, ErrPermitLost):
		p.end(ErrPermitLost)
	case err == nil:
		p.lease, p.until = lease, sent.Add(lease)
		if !time.Now().Before(p.until) { // the process was paused before it read the reply
			p.end(ErrPermitLost)
			return ErrPermitLost
		}
		p.ends.Reset(time.Until(p.until))
	}
	return err
}

// renew renews the permit and schedules the next renewal, which is sooner after a failure.
func (p *Permit) renew() {
	p.mu.Lock()
	timeout := RenewAfter(p.lease)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	err := p.Renew(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
	case err == nil:
		p.renews.Reset(RenewAfter(p.lease))
	default:
		p.renews.Reset(RenewAfter(p.lease) / 10)
	}
}

func (p *Permit) renewSoon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.renews.Reset(0)
	}
}

// Release gives the permit back and ends its context; other permits with the same Request.ID are lost. It does not depend on another
// context. The error is that of Redis; the lease then expires. Releasing a lost or released permit is no error.
func (p *Permit) Release() error {
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return nil
	}
	p.end(context.Canceled)
	p.mu.Unlock()
	p.shard.lost(p.ticket.key, p.ticket.token) // by other permits of this process with the same ID
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	return p.shard.release(ctx, p.ticket)
}

const releaseTimeout = 3 * time.Second

// expire ends the permit, unless it was renewed while the timer fired.
func (p *Permit) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && !time.Now().Before(p.until) {
		p.end(ErrPermitLost)
	}
}

func (p *Permit) lose(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.end(cause)
	}
}

// end ends the permit. The caller holds mu.
func (p *Permit) end(cause error) {
	p.over = true
	p.ends.Stop()
	p.renews.Stop()
	p.shard.unregister(p)
	p.cancel(cause)
}
