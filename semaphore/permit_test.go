package semaphore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
)

// The timer at the end of a lease may go off while a renewal is on its way back: then the permit lives on.
func TestPermitRenewedAtTheLastMoment(t *testing.T) {
	set, err := NewSet(nil, SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sh := set.shard("")
	sh.listens = true // there is nothing to listen to
	p := newPermit(sh, held{ticket: ticket{key: random()}, lease: time.Hour, since: time.Now()})
	p.expire()
	if p.ctx.Err() != nil {
		t.Error("a permit whose lease goes on is lost")
	}
	p.until = time.Now()
	p.expire()
	if p.ctx.Err() == nil {
		t.Error("a permit whose lease is over goes on")
	}
}

// lateRenewals delays replies to renewals until the lease is over.
type lateRenewals struct{ redis.Hook }

func (lateRenewals) DialHook(next redis.DialHook) redis.DialHook { return next }
func (lateRenewals) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (lateRenewals) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if slices.Contains(cmd.Args(), any(doRenew)) {
			<-time.After(MinLease)
		}
		return err
	}
}

// A process is stopped while a renewal is under way, and resumes after the lease: the renewal has come too late.
func TestPermitRenewedBeforeAStop(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	opts.ContextTimeoutEnabled = true
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	rdb.AddHook(lateRenewals{})
	set, err := NewSet(rdb, SetOptions{Namespace: "stopped"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = set.Run(t.Context()) }()
	s, err := set.Semaphore("report")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Define(t.Context(), Definition{Limit: 1, Lease: MinLease}); err != nil {
		t.Fatal(err)
	}
	p, _, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock() // the timers of a stopped process do not fire
	p.ends.Stop()
	p.renews.Stop()
	p.mu.Unlock()
	if err := p.Renew(t.Context()); !errors.Is(err, ErrPermitLost) || !errors.Is(context.Cause(p.Context()), ErrPermitLost) {
		t.Errorf("%v, %v, want both to be lost", err, context.Cause(p.Context()))
	}
}
