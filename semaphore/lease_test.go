package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/semaphore"
)

func TestExpectedWait(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1, long)
		release(t, acquire(t, s, semaphore.Request{}))
		p := acquire(t, s, semaphore.Request{})
		held := status(t, s).Held
		c := queue(t, s, semaphore.Request{}, 1)
		_, full, err := s.TryAcquire(soon(t))
		if full == nil || err != nil || full.Position != 2 || full.Wait < held || full.Wait > 3*held+time.Microsecond {
			t.Errorf("held for %v lately, then %+v", held, full)
		}
		release(t, p)
		release(t, c.got())
	})
}

func TestLeaseEndsWithoutRenewal(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 1, semaphore.MinLease), h.semaphore("report")
		g, _, err := a.Grant(soon(t), semaphore.Request{Holder: "somebody", Weight: 1})
		if err != nil || g.Lease != semaphore.MinLease {
			t.Fatalf("%+v, %v", g, err)
		}
		if lease, err := b.Renew(soon(t), g.ID); err != nil || lease != semaphore.MinLease {
			t.Fatalf("renewed by its id: %v, %v", lease, err)
		}
		st := status(t, a)
		if len(st.Holders) != 1 || st.Holders[0].Holder != "somebody" || st.Holders[0].Token != g.Token || st.Holders[0].ID != g.ID ||
			st.Holders[0].Until.Sub(st.Holders[0].Since) < semaphore.MinLease {
			t.Errorf("%+v", st.Holders)
		}
		p := acquire(t, b, semaphore.Request{}) // when the lease has ended
		if since := status(t, a).Holders[0].Since; since.Before(st.Holders[0].Until) {
			t.Errorf("granted at %v, though the lease ended at %v", since, st.Holders[0].Until)
		}
		if _, err := a.Renew(soon(t), g.ID); !errors.Is(err, semaphore.ErrPermitLost) {
			t.Errorf("renewed too late: %v", err)
		}
		if err := a.Release(soon(t), g.ID); err != nil {
			t.Errorf("released too late: %v", err)
		}
		if st := status(t, a); st.InUse != 1 || st.Totals.Lost != 1 {
			t.Errorf("then: %+v", st)
		}
		release(t, p)
	})
}

// Permits of Acquire outlive their lease many times, by hand or by themselves.
func TestRenewal(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, h *house) {
		const lease = 3 * semaphore.MinLease // a busy machine may stand still for the shortest one
		s := h.defined("report", 1, lease)
		p := acquire(t, s, semaphore.Request{})
		first := status(t, s).Holders[0].Until
		for range 100 {
			if err := p.Renew(soon(t)); err != nil {
				t.Fatal(err)
			}
		}
		await(t, s, func(st semaphore.Status) bool { return st.Holders[0].Until.After(first.Add(lease)) })
		if p.Context().Err() != nil {
			t.Error(context.Cause(p.Context()))
		}
		release(t, p)
		if cause := context.Cause(p.Context()); !errors.Is(cause, context.Canceled) {
			t.Error(cause)
		}
		if err := p.Renew(soon(t)); !errors.Is(err, semaphore.ErrPermitLost) {
			t.Errorf("after the release: %v", err)
		}
	})
}

func TestEndOfRun(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, h *house) {
		set := h.set()
		s, other := of(t, set, "report"), h.defined("report", 1, semaphore.MinLease)
		p := acquire(t, s, semaphore.Request{})
		c := queue(t, s, semaphore.Request{}, 1)
		stop(set)
		if err := c.failed(); !errors.Is(err, semaphore.ErrClosed) {
			t.Errorf("who waits: %v", err)
		}
		<-p.Context().Done()
		if cause := context.Cause(p.Context()); !errors.Is(cause, semaphore.ErrClosed) {
			t.Errorf("who holds: %v", cause)
		}
		if err := p.Release(); err != nil {
			t.Errorf("release: %v", err)
		}
		_, _, err1 := s.Acquire(soon(t))
		_, err2 := s.Status(soon(t))
		_, _, err3 := of(t, set, "late:report").Acquire(soon(t)) // with a tag that the Set has not seen before
		for _, err := range []error{err1, err2, err3, s.Define(soon(t), semaphore.Definition{Limit: 1}), s.Release(soon(t), p.ID())} {
			if !errors.Is(err, semaphore.ErrClosed) {
				t.Errorf("after it: %v", err)
			}
		}
		release(t, acquire(t, other, semaphore.Request{})) // when the lease has ended, and the dead waiter is passed
	})
}

// A semaphore of New has a Run of its own.
func TestEndOfRunOfOne(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		alone, err := semaphore.New(h.client(), "a", semaphore.Options{Limit: 1, Namespace: h.namespace})
		if err != nil {
			t.Fatal(err)
		}
		running(t, alone)
		q := acquire(t, alone, semaphore.Request{})
		stop(alone)
		<-q.Context().Done()
		if _, _, err := alone.Acquire(soon(t)); !errors.Is(err, semaphore.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestStatusListsAThousand(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1010, long)
		var wg sync.WaitGroup
		for range 1010 {
			wg.Go(func() {
				if _, _, err := s.Grant(soon(t), semaphore.Request{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		st := status(t, s)
		if st.InUse != 1010 || len(st.Holders) != 1000 || !slices.IsSortedFunc(st.Holders, func(a, b semaphore.Holder) int { return a.Until.Compare(b.Until) }) {
			t.Errorf("%d in use, %d holders", st.InUse, len(st.Holders))
		}
	})
}

// Tags keep semaphores apart, and together what is acquired together.
func TestTags(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		h.defined("shop:report", 1, long)
		plain, tagged, other := h.defined("report", 1, long), h.defined("shop:all", 1, long), h.defined("other:report", 1, long)
		p := acquire(t, tagged, semaphore.Request{Also: []string{"shop:report"}})
		release(t, acquire(t, plain, semaphore.Request{Try: true}), acquire(t, other, semaphore.Request{Try: true}))
		if _, _, err := tagged.AcquireWith(soon(t), semaphore.Request{Also: []string{"report"}}); !errors.Is(err, semaphore.ErrInvalid) {
			t.Errorf("two tags: %v", err)
		}
		c := queue(t, tagged, semaphore.Request{}, 1)
		if fmt.Sprint(status(t, tagged).Name) != "shop:all" {
			t.Error("another name")
		}
		release(t, p)
		release(t, c.got())
	})
}
