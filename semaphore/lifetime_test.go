package semaphore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/semaphore"
)

func TestGrowingLetsWaitersIn(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 0, long), h.semaphore("report")
		var callers []*caller
		for i := range 4 {
			callers = append(callers, queue(t, []*semaphore.Semaphore{a, b}[i%2], semaphore.Request{}, i+1))
		}
		define(t, h.semaphore("report"), 3, long)
		for _, c := range callers[:3] {
			c.got()
		}
		st := status(t, a)
		if st.InUse != 3 || st.Waiting != 1 || st.Limit != 3 || st.Version != 2 || !callers[3].waits() {
			t.Errorf("%+v", st)
		}
		define(t, a, 3, long)
		if v := status(t, b).Version; v != 2 {
			t.Errorf("version %d after a definition that changes nothing", v)
		}
		define(t, a, 4, long)
		callers[3].got()
	})
}

func TestShrinkingEvictsNobody(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 4, long), h.semaphore("report")
		var permits []*semaphore.Permit
		for range 4 {
			permits = append(permits, acquire(t, a, semaphore.Request{}))
		}
		heavy := queue(t, a, semaphore.Request{Weight: 3}, 1)
		light := queue(t, b, semaphore.Request{Weight: 2}, 2)
		define(t, b, 2, long)
		if err := heavy.failed(); !errors.Is(err, semaphore.ErrTooHeavy) {
			t.Errorf("who waits for 3 of 2: %v", err)
		}
		if _, _, err := b.AcquireWith(soon(t), semaphore.Request{Weight: 3}); !errors.Is(err, semaphore.ErrTooHeavy) {
			t.Errorf("who asks for 3 of 2: %v", err)
		}
		if st := status(t, b); st.InUse != 4 || st.Limit != 2 || st.Waiting != 1 {
			t.Errorf("after shrinking: %+v", st)
		}
		for i, p := range permits {
			if err := p.Renew(soon(t)); err != nil || p.Context().Err() != nil {
				t.Errorf("holder %d: %v", i, err)
			}
		}
		release(t, permits[:3]...)
		if st := status(t, a); st.InUse != 1 || !light.waits() {
			t.Errorf("with one left: %+v", st)
		}
		release(t, permits[3])
		light.got()
	})
}

func TestUndefineTellsWhoWaits(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 1, long), h.semaphore("report")
		p := acquire(t, a, semaphore.Request{})
		var callers []*caller
		for i := range 100 {
			callers = append(callers, call(soon(t), t, []*semaphore.Semaphore{a, b}[i%2], semaphore.Request{}))
		}
		await(t, a, func(st semaphore.Status) bool { return st.Waiting == len(callers) })
		if err := b.Undefine(soon(t)); err != nil {
			t.Fatal(err)
		}
		for _, c := range callers {
			if err := c.failed(); !errors.Is(err, semaphore.ErrUnknown) {
				t.Fatalf("who waits: %v", err)
			}
		}
		if err := p.Renew(soon(t)); err != nil {
			t.Errorf("who holds: %v", err)
		}
		define(t, b, 2, long)
		if st := status(t, b); st.InUse != 1 || st.Waiting != 0 {
			t.Errorf("defined again: %+v", st)
		}
		release(t, acquire(t, b, semaphore.Request{}), p)
	})
}

// When any caller releases a permit, its holder's context ends at once, long before the next renewal.
func TestForcedReleaseEndsTheContext(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 1, long), h.semaphore("report")
		for who, s := range map[string]*semaphore.Semaphore{"another process": b, "the same process": a} {
			p := acquire(t, a, semaphore.Request{})
			waiter := queue(t, b, semaphore.Request{}, 1)
			id := status(t, s).Holders[0].ID
			if id != p.ID() {
				t.Errorf("the permit %s is listed as %s", p.ID(), id)
			}
			for range 2 { // the second time it is over already
				if err := s.Release(soon(t), id); err != nil {
					t.Fatal(err)
				}
			}
			q := waiter.got()
			select {
			case <-p.Context().Done():
				if cause := context.Cause(p.Context()); !errors.Is(cause, semaphore.ErrPermitLost) {
					t.Errorf("released by %s: %v", who, cause)
				}
			case <-time.After(patience / 3):
				t.Errorf("released by %s: the context goes on", who)
			}
			release(t, p) // harmless
			if st := status(t, a); st.InUse != 1 || st.Holders[0].Token != q.Token() {
				t.Errorf("released by %s: %+v", who, st)
			}
			release(t, q)
		}
	})
}

func TestTokensGrow(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		h.defined("a", 5, long)
		h.defined("b", 5, long)
		var mu sync.Mutex
		tokens := map[int64]bool{}
		var wg sync.WaitGroup
		ctx := soon(t)
		for i := range 4 {
			s, last := h.semaphore([]string{"a", "b"}[i%2]), int64(0)
			r := semaphore.Request{}
			if i > 1 {
				r.Also = []string{[]string{"b", "a"}[i%2]}
			}
			wg.Go(func() {
				for range 50 {
					p, _, err := s.AcquireWith(ctx, r)
					if err != nil {
						t.Error(err)
						return
					}
					if p.Token() <= last || p.Token() >= 1<<53 {
						t.Errorf("%d after %d", p.Token(), last)
					}
					last = p.Token()
					mu.Lock()
					tokens[last] = true
					mu.Unlock()
					_ = p.Release()
				}
			})
		}
		wg.Wait()
		if len(tokens) < 100 {
			t.Errorf("only %d different ones", len(tokens))
		}
	})
}

func TestEndOfContextFreesThePlace(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 1, long), h.semaphore("report")
		p := acquire(t, a, semaphore.Request{})
		var callers []*caller
		var cancels []context.CancelFunc
		for i := range 3 {
			ctx, cancel := context.WithCancel(soon(t))
			callers, cancels = append(callers, call(ctx, t, []*semaphore.Semaphore{a, b}[i%2], semaphore.Request{})), append(cancels, cancel)
			await(t, b, func(st semaphore.Status) bool { return st.Waiting == i+1 })
		}
		cancels[1]()
		if full := callers[1].refused(); full.Position != 2 {
			t.Errorf("the second: %+v", full)
		}
		st := await(t, a, func(st semaphore.Status) bool { return st.Waiting == 2 })
		if st.Totals.TimedOut != 1 {
			t.Errorf("%+v", st.Totals)
		}
		cancels[0]()
		if full := callers[0].refused(); full.Position != 1 {
			t.Errorf("the first: %+v", full)
		}
		release(t, p)
		release(t, callers[2].got())
		if st := status(t, a); st.InUse != 0 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
		cancels[2]()
	})
}

// A context that ends at any moment leaves nothing behind.
func TestContextsEndAtAnyMoment(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		sems := []*semaphore.Semaphore{h.defined("report", 2, long), h.semaphore("report")}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 50 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n*i)*20*time.Microsecond)
					switch p, full, err := sems[i%2].Acquire(ctx); {
					case p != nil:
						_ = p.Release()
					case full == nil && !errors.Is(err, context.DeadlineExceeded):
						t.Error(err)
					}
					cancel()
				}
			})
		}
		wg.Wait()
		await(t, sems[0], func(st semaphore.Status) bool { return st.InUse == 0 && st.Waiting == 0 })
	})
}
