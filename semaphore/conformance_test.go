package semaphore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

const long = time.Minute // a lease that does not end in a test

func TestLimit(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 3, long), h.semaphore("report")
		permits := []*semaphore.Permit{acquire(t, a, semaphore.Request{}), acquire(t, b, semaphore.Request{}), acquire(t, a, semaphore.Request{Try: true})}
		for _, s := range []*semaphore.Semaphore{a, b} {
			p, full, err := s.TryAcquire(soon(t))
			if p != nil || full == nil || full.Position != 1 || err != nil {
				t.Errorf("the fourth: %v, %+v, %v", p, full, err)
			}
		}
		if st := status(t, b); st.InUse != 3 || st.Waiting != 0 {
			t.Errorf("%d in use, %d wait", st.InUse, st.Waiting)
		}
		release(t, permits[1], permits[1]) // twice frees one
		p := acquire(t, a, semaphore.Request{Try: true})
		if _, full, err := b.TryAcquire(soon(t)); full == nil {
			t.Errorf("after one was released twice, the second: %v", err)
		}
		release(t, p, permits[0], permits[2])
		if st := status(t, b); st.InUse != 0 || len(st.Holders) != 0 || st.Totals.Granted != 4 || st.Totals.Lost != 0 {
			t.Errorf("at the end: %+v", st)
		}
	})
}

// No light waiter overtakes a heavy one, even if there is room.
func TestHeavyWaiterIsNotStarved(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		a, b := h.defined("report", 4, long), h.semaphore("report")
		first, second := acquire(t, a, semaphore.Request{}), acquire(t, b, semaphore.Request{Weight: 2})
		heavy := queue(t, b, semaphore.Request{Weight: 4}, 1)
		light := queue(t, a, semaphore.Request{}, 2)
		if _, full, err := a.TryAcquire(soon(t)); full == nil {
			t.Errorf("one who passes the heavy waiter: %v", err)
		}
		release(t, first)
		if _, full, err := a.TryAcquire(soon(t)); full == nil || !heavy.waits() || !light.waits() {
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
		if _, full, err := a.AcquireWith(soon(t), semaphore.Request{Also: []string{"b"}, Try: true}); full == nil {
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
		if _, _, err := a.AcquireWith(soon(t), semaphore.Request{Also: []string{"nowhere"}}); !errors.Is(err, semaphore.ErrUnknown) {
			t.Errorf("with an unknown one: %v", err)
		}
		if status(t, a).InUse != 0 {
			t.Error("a is held though the other is unknown")
		}
	})
}

// Whatever the order of names in acquisitions of several semaphores, there are no deadlocks and no overlapping permits.
func TestSeveralAtOnceDoNotDeadlock(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		for _, name := range []string{"a", "b", "c"} {
			h.defined(name, 1, long)
		}
		rounds := testenv.Size(10, 40)
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
					p, _, err := s.AcquireWith(ctx, semaphore.Request{Also: also})
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
		if _, _, err := a.AcquireWith(soon(t), semaphore.Request{ID: r.ID, Also: []string{"other"}}); !errors.Is(err, semaphore.ErrInvalid) {
			t.Errorf("the same id for more semaphores: %v", err)
		}
		release(t, elsewhere)
		<-p.Context().Done() // it is one permit
		if next := acquire(t, b, r); next.Token() <= p.Token() {
			t.Errorf("a new permit's token is %d after %d", next.Token(), p.Token())
		}
	})
}

func TestReleaseEndsAllPermitsOfARequest(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 1, long)
		p, again := acquire(t, s, semaphore.Request{ID: "order 17"}), acquire(t, s, semaphore.Request{ID: "order 17"})
		release(t, p)
		select {
		case <-again.Context().Done():
		default:
			t.Error("the permit was released, and another of the same request is still alive")
		}
		if cause := context.Cause(again.Context()); !errors.Is(cause, semaphore.ErrPermitLost) {
			t.Errorf("it ended with %v, want %v", cause, semaphore.ErrPermitLost)
		}
	})
}

func TestWaiterWithTheIDOfAnotherRequest(t *testing.T) {
	eachRedis(t, func(t *testing.T, h *house) {
		s := h.defined("report", 2, long)
		acquire(t, s, semaphore.Request{Weight: 2})
		queue(t, s, semaphore.Request{ID: "order 17"}, 1)
		if _, _, err := s.AcquireWith(soon(t), semaphore.Request{ID: "order 17", Weight: 2}); !errors.Is(err, semaphore.ErrInvalid) {
			t.Errorf("another weight: %v, want %v", err, semaphore.ErrInvalid)
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
