package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/semaphore"
)

const long = time.Minute // a lease that does not end in a test

func TestLimit(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 3, long), h.semaphore("report")
		permits := []*semaphore.Permit{acquire(t, a, semaphore.Request{}), acquire(t, b, semaphore.Request{}), acquire(t, a, semaphore.Request{Try: true})}
		for _, s := range []*semaphore.Semaphore{a, b} {
			_, err := s.TryAcquire(soon(t))
			var full *semaphore.CapacityError
			if !errors.As(err, &full) || !errors.Is(err, semaphore.ErrAtCapacity) || full.Position != 1 || full.Name != "report" || full.Err != nil {
				t.Errorf("the fourth: %v", err)
			}
		}
		if st := status(t, b); st.InUse != 3 || st.Waiting != 0 {
			t.Errorf("%d in use, %d wait", st.InUse, st.Waiting)
		}
		release(t, permits[1], permits[1]) // twice frees one
		p := acquire(t, a, semaphore.Request{Try: true})
		if _, err := b.TryAcquire(soon(t)); !errors.Is(err, semaphore.ErrAtCapacity) {
			t.Errorf("after one was released twice, the second: %v", err)
		}
		release(t, p, permits[0], permits[2])
		if st := status(t, b); st.InUse != 0 || len(st.Holders) != 0 || st.Totals.Granted != 4 || st.Totals.Lost != 0 {
			t.Errorf("at the end: %+v", st)
		}
	})
}

// A heavy waiter is passed by nobody, though there would be room for light ones.
func TestHeavyWaiterIsNotStarved(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 4, long), h.semaphore("report")
		first, second := acquire(t, a, semaphore.Request{}), acquire(t, b, semaphore.Request{Weight: 2})
		heavy := queue(t, b, semaphore.Request{Weight: 4}, 1)
		light := queue(t, a, semaphore.Request{}, 2)
		if _, err := a.TryAcquire(soon(t)); !errors.Is(err, semaphore.ErrAtCapacity) {
			t.Errorf("one who passes the heavy waiter: %v", err)
		}
		release(t, first)
		if _, err := a.TryAcquire(soon(t)); !errors.Is(err, semaphore.ErrAtCapacity) || !heavy.waits() || !light.waits() {
			t.Errorf("with half of it free: %v", err)
		}
		release(t, second)
		p := heavy.got()
		if st := status(t, a); st.InUse != 4 || st.Waiting != 1 || st.Holders[0].Weight != 4 {
			t.Errorf("with the heavy one: %+v", st)
		}
		release(t, p)
		if q := light.got(); q.Token() <= p.Token() {
			t.Errorf("tokens %d, then %d", p.Token(), q.Token())
		}
	})
}

func TestFirstInFirstOut(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		sems := []*semaphore.Semaphore{h.defined("report", 1, long), h.semaphore("report"), h.semaphore("report")}
		p := acquire(t, sems[0], semaphore.Request{})
		var callers []*caller
		for i := range 12 {
			callers = append(callers, queue(t, sems[i*i%3], semaphore.Request{Holder: strconv.Itoa(i)}, i+1))
		}
		st := status(t, sems[1])
		for i, w := range st.Waiters {
			if w.Holder != strconv.Itoa(i) || w.Weight != 1 {
				t.Errorf("place %d: %+v", i, w)
			}
		}
		for i, c := range callers {
			if i > 0 && !c.waits() {
				t.Fatalf("%d did not wait for its turn: %v", i, c.err)
			}
			last := p.Token()
			release(t, p)
			if p = c.got(); p.Token() <= last {
				t.Errorf("token %d after %d", p.Token(), last)
			}
		}
		st = status(t, sems[0])
		if st.Totals.Granted != 13 || st.Totals.Waited != 12 || st.Totals.WaitedFor <= 0 || st.Held <= 0 {
			t.Errorf("%+v, held for %v", st.Totals, st.Held)
		}
	})
}

func TestSeveralAtOnceAllOrNothing(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("a", 2, long), h.defined("b", 2, long)
		p := acquire(t, b, semaphore.Request{Weight: 2})
		if _, err := a.AcquireWith(soon(t), semaphore.Request{Also: []string{"b"}, Try: true}); !errors.Is(err, semaphore.ErrAtCapacity) {
			t.Errorf("with b full: %v", err)
		}
		if st := status(t, a); st.InUse != 0 || st.Waiting != 0 {
			t.Errorf("a after it: %+v", st)
		}
		both := queue(t, a, semaphore.Request{Also: []string{"b"}, Weight: 2}, 1)
		if st := status(t, b); st.Waiting != 1 || status(t, a).InUse != 0 {
			t.Errorf("b while it waits: %+v", st)
		}
		release(t, p)
		q := both.got()
		for _, s := range []*semaphore.Semaphore{a, b} {
			st := status(t, s)
			if st.InUse != 2 || st.Waiting != 0 || len(st.Holders) != 1 || st.Holders[0].Token != q.Token() {
				t.Errorf("%s held: %+v", st.Name, st)
			}
		}
		release(t, q)
		if status(t, a).InUse+status(t, b).InUse != 0 {
			t.Error("something is held after the release")
		}
		if _, err := a.AcquireWith(soon(t), semaphore.Request{Also: []string{"nowhere"}}); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("with an unknown one: %v", err)
		}
		if status(t, a).InUse != 0 {
			t.Error("a is held though the other is unknown")
		}
	})
}

// Whoever waits for several in whatever order: nobody waits for ever, and nobody's permits overlap.
func TestSeveralAtOnceDoNotDeadlock(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		for _, name := range []string{"a", "b", "c"} {
			h.defined(name, 1, long)
		}
		rounds := 40
		if testing.Short() {
			rounds = 10
		}
		var inside [3]sync.Mutex
		var wg sync.WaitGroup
		ctx := soon(t)
		for _, names := range []string{"ab", "ba", "bc", "cb", "ca", "abc", "a", "c"} {
			s := h.semaphore(names[:1])
			var also []string
			for _, other := range names[1:] {
				also = append(also, string(other))
			}
			wg.Go(func() {
				for range rounds {
					p, err := s.AcquireWith(ctx, semaphore.Request{Also: also})
					if err != nil {
						t.Errorf("%s: %v", names, err)
						return
					}
					for _, name := range names {
						if !inside[name-'a'].TryLock() {
							t.Errorf("%s: %c is held by another", names, name)
							return
						}
					}
					for _, name := range names {
						inside[name-'a'].Unlock()
					}
					if err := p.Release(); err != nil {
						t.Errorf("%s: %v", names, err)
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestResentRequestTakesNoSecondPermit(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 2, long), h.semaphore("report")
		h.defined("other", 2, long)
		r := semaphore.Request{ID: "order 17"}
		p, again, elsewhere := acquire(t, a, r), acquire(t, a, r), acquire(t, b, r)
		if p.Token() != again.Token() || p.Token() != elsewhere.Token() || p.ID() != elsewhere.ID() || status(t, a).InUse != 1 {
			t.Errorf("tokens %d, %d, %d; %+v", p.Token(), again.Token(), elsewhere.Token(), status(t, a))
		}
		if _, err := a.AcquireWith(soon(t), semaphore.Request{ID: r.ID, Also: []string{"other"}}); !errors.Is(err, semaphore.ErrInvalid) {
			t.Errorf("the same id for more semaphores: %v", err)
		}
		release(t, elsewhere)
		<-p.Context().Done() // it is one permit
		if next := acquire(t, b, r); next.Token() <= p.Token() {
			t.Errorf("a new permit's token is %d after %d", next.Token(), p.Token())
		}
	})
}

func TestResentRequestKeepsItsPlace(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 1, long), h.semaphore("report")
		p := acquire(t, a, semaphore.Request{})
		r := semaphore.Request{ID: "order 17"}
		callers := []*caller{queue(t, a, r, 1), queue(t, b, semaphore.Request{}, 2)}
		callers = append(callers, call(soon(t), t, a, r), call(soon(t), t, b, r))
		await(t, b, func(st semaphore.Status) bool { return st.Waiting == 2 })
		release(t, p)
		first := callers[0].got()
		for _, c := range callers[2:] {
			if q := c.got(); q.Token() != first.Token() {
				t.Errorf("token %d for one, %d for another that is the same", first.Token(), q.Token())
			}
		}
		if st := status(t, a); st.InUse != 1 || st.Waiting != 1 || !callers[1].waits() {
			t.Errorf("then: %+v", st)
		}
		release(t, first)
		callers[1].got()
	})
}

// One of two who wait with the same id gives up: the other keeps the place.
func TestResentRequestGivenUpOnce(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1, long)
		p := acquire(t, s, semaphore.Request{})
		r := semaphore.Request{ID: "order 17"}
		first := queue(t, s, r, 1)
		ctx, cancel := context.WithCancel(soon(t))
		second := call(ctx, t, s, r)
		last := queue(t, s, semaphore.Request{}, 2)
		cancel()
		if err := second.failed(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		release(t, p)
		if q := first.got(); !last.waits() {
			t.Errorf("the last one got a permit beside %d", q.Token())
		}
	})
}

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
		if _, err := b.AcquireWith(soon(t), semaphore.Request{Weight: 3}); !errors.Is(err, semaphore.ErrTooHeavy) {
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

func TestUnknownNames(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.semaphore("nowhere")
		if _, err := s.Acquire(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("Acquire: %v", err)
		}
		if _, err := s.TryAcquire(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("TryAcquire: %v", err)
		}
		if _, err := s.Status(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("Status: %v", err)
		}
		looked := 0
		set := h.setOn(h.client(), semaphore.SetOptions{Lookup: func(_ context.Context, name string) (semaphore.Definition, error) {
			looked++
			if name != "report" {
				return semaphore.Definition{}, semaphore.ErrUnknown
			}
			return semaphore.Definition{Limit: 1}, nil
		}})
		if _, err := of(t, set, "nowhere").Acquire(soon(t)); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("what the lookup does not know: %v", err)
		}
		p := acquire(t, of(t, set, "report"), semaphore.Request{})
		if st := status(t, h.semaphore("report")); st.Limit != 1 || st.Lease != semaphore.DefaultLease || looked != 2 {
			t.Errorf("%+v after %d look-ups", st, looked)
		}
		release(t, p)
	})
}

// Whoever releases a permit: its holder's context ends at once, long before it would be renewed.
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
					p, err := s.AcquireWith(ctx, r)
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
		var full *semaphore.CapacityError
		if err := callers[1].failed(); !errors.As(err, &full) || full.Position != 2 || !errors.Is(err, context.Canceled) || !errors.Is(err, semaphore.ErrAtCapacity) {
			t.Errorf("the second: %v", err)
		}
		st := await(t, a, func(st semaphore.Status) bool { return st.Waiting == 2 })
		if st.Totals.TimedOut != 1 {
			t.Errorf("%+v", st.Totals)
		}
		cancels[0]()
		if err := callers[0].failed(); !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
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
					if p, err := sems[i%2].Acquire(ctx); err == nil {
						_ = p.Release()
					} else if !errors.Is(err, context.DeadlineExceeded) {
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

func TestExpectedWait(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1, long)
		release(t, acquire(t, s, semaphore.Request{}))
		p := acquire(t, s, semaphore.Request{})
		held := status(t, s).Held
		c := queue(t, s, semaphore.Request{}, 1)
		_, err := s.TryAcquire(soon(t))
		var full *semaphore.CapacityError
		if !errors.As(err, &full) || full.Position != 2 || full.Wait < held || full.Wait > 3*held+time.Microsecond {
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
		g, err := a.Grant(soon(t), semaphore.Request{Holder: "somebody", Weight: 1})
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
		s := h.defined("report", 1, semaphore.MinLease)
		p := acquire(t, s, semaphore.Request{})
		first := status(t, s).Holders[0].Until
		for range 100 {
			if err := p.Renew(soon(t)); err != nil {
				t.Fatal(err)
			}
		}
		await(t, s, func(st semaphore.Status) bool { return st.Holders[0].Until.After(first.Add(semaphore.MinLease)) })
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

func TestClose(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, h *house) {
		set := h.set()
		s, other := of(t, set, "report"), h.defined("report", 1, semaphore.MinLease)
		p := acquire(t, s, semaphore.Request{})
		c := queue(t, s, semaphore.Request{}, 1)
		if err := errors.Join(set.Close(), set.Close()); err != nil {
			t.Fatal(err)
		}
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
		_, err1 := s.Acquire(soon(t))
		_, err2 := s.Status(soon(t))
		for _, err := range []error{err1, err2, s.Define(soon(t), semaphore.Definition{Limit: 1}), s.Release(soon(t), p.ID())} {
			if !errors.Is(err, semaphore.ErrClosed) {
				t.Errorf("after it: %v", err)
			}
		}
		release(t, acquire(t, other, semaphore.Request{})) // when the lease has ended, and the dead waiter is passed
	})
}

func TestStatusListsAThousand(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1010, long)
		var wg sync.WaitGroup
		for range 1010 {
			wg.Go(func() {
				if _, err := s.Grant(soon(t), semaphore.Request{}); err != nil {
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
		if _, err := tagged.AcquireWith(soon(t), semaphore.Request{Also: []string{"report"}}); !errors.Is(err, semaphore.ErrInvalid) {
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
