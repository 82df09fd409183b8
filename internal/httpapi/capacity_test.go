package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/orders"
)

const decideTime = 200 * time.Millisecond

// crowd starts concurrent callers, each of which decides for the given time, and returns how many found room.
func crowd(c *capacity, callers int, decides time.Duration) (entered int) {
	var (
		wg sync.WaitGroup
		mu sync.Mutex
	)
	for range callers {
		wg.Go(func() {
			if _, ok := c.enter(); !ok {
				return
			}
			time.Sleep(decides)
			c.leave(decides)
			mu.Lock()
			entered++
			mu.Unlock()
		})
	}
	wg.Wait()
	return entered
}

// TestCapacityIsWaitedFor: a caller without room waits for half of a decision's time, and then leaves without having taken any.
func TestCapacityIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(decideTime)
		c.window.end = time.Now().Add(time.Hour) // the limit stays the same all the time
		if got := crowd(c, 3*capacityFirst, 60*time.Millisecond); got != 2*capacityFirst {
			t.Errorf("%d of three turns of 60 ms found room within 100 ms, want those of the first two", got)
		}
		if c.inUse != 0 || c.waiting.Len() != 0 {
			t.Errorf("%d are in, %d wait, when all have gone", c.inUse, c.waiting.Len())
		}
	})
}

// TestCapacitySpreadsWhoComesBack: each refused caller gets its own time to retry, spaced at half of the rate of decisions.
func TestCapacitySpreadsWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(decideTime)
		for range 50 {
			crowd(c, 50, 100*time.Millisecond) // 500 per second
		}
		if c.pace < 450 || c.pace > 550 {
			t.Fatalf("a pace of %.0f a second, want 500", c.pace)
		}
		c.limit = 1 // otherwise a higher rate is assumed
		seconds := make(map[int]int)
		for range 10_000 {
			comeBack := c.later()
			if comeBack < comeBackLeast || comeBack > comeBackMost {
				t.Fatalf("come back in %v", comeBack)
			}
			seconds[int(comeBack/time.Second)]++
		}
		for s := 2; s < 29; s++ {
			if n := seconds[s]; n < 200 || n > 300 {
				t.Errorf("%d come back in second %d, want 250", n, s)
			}
		}
	})
}

// TestCapacityIsFair: first come, first served; later callers do not overtake waiting ones.
func TestCapacityIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(decideTime)
		const most = 3
		c.limit = most
		for range most {
			if _, ok := c.enter(); !ok {
				t.Fatal("no room at first")
			}
		}
		var order []int
		for i := range most {
			go func() {
				if _, ok := c.enter(); ok {
					order = append(order, i)
					time.Sleep(time.Millisecond)
					c.leave(0)
				}
			}()
			synctest.Wait()
		}
		c.leave(0)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("%v", order)
		}
	})
}

// TestCapacityFollowsTheTimeOfDecisions: the limit shrinks while decisions are late, down to a minimum, and grows while they
// are not and callers wait.
func TestCapacityFollowsTheTimeOfDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(decideTime)
		for range 20 {
			crowd(c, 2*c.limit, decideTime)
		}
		if c.limit != capacityLeast {
			t.Errorf("limit %d although nothing is decided in time, want %d", c.limit, capacityLeast)
		}
		for range 5 {
			crowd(c, 2*c.limit, decideTime/2)
		}
		before := c.limit
		if before <= capacityLeast {
			t.Errorf("limit %d although all is decided in time, and many wait", before)
		}
		for range 20 {
			crowd(c, 10, decideTime/2)
		}
		if c.limit != before {
			t.Errorf("limit %d after a time without a crowd, want %d as before", c.limit, before)
		}
		c.limit = capacityMost - 1
		if crowd(c, 2*c.limit, decideTime/2); c.limit != capacityMost {
			t.Errorf("limit %d, want at most %d", c.limit, capacityMost)
		}
	})
}

// TestCapacityCountsWhatItKnows: uncounted decisions neither hide late ones nor make room.
func TestCapacityCountsWhatItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(decideTime)
		for range 20 {
			crowd(c, c.limit, decideTime)
			for range 20 * c.limit {
				c.enter()
				c.leave(0)
			}
		}
		if c.limit != capacityLeast {
			t.Errorf("limit %d although nothing is decided in time, want %d", c.limit, capacityLeast)
		}
		c.window = window{full: true}
		c.enter()
		if c.leave(0); c.limit != capacityLeast {
			t.Errorf("limit %d although nothing was decided", c.limit)
		}
	})
}

// TestAtCapacity: an order without room gets a Retry-After, and is not charged.
func TestAtCapacity(t *testing.T) {
	b := setup(t)
	b.capacity.limit, b.capacity.patience = 1, time.Millisecond
	if _, ok := b.capacity.enter(); !ok {
		t.Fatal("no room")
	}
	w := call(b.Public(), "POST", placePath, orderBody)
	if p := problemIn(t, w); w.Code != http.StatusServiceUnavailable || p.Reason != string(orders.ReasonAtCapacity) || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if len(b.gate.asked) != 0 || slices.Contains(b.orders.calls, "reserve") {
		t.Errorf("charged %v, %v", b.gate.asked, b.orders.calls)
	}
	b.capacity.leave(0)
	if w := call(b.Public(), "POST", placePath, orderBody); w.Code != http.StatusAccepted {
		t.Errorf("with room: %d %s", w.Code, w.Body)
	}
	if b.capacity.inUse != 0 {
		t.Errorf("%d still in", b.capacity.inUse)
	}
}

// TestCapacitySurvivesAPanic: a decision that panics releases its room.
func TestCapacitySurvivesAPanic(t *testing.T) {
	b := setup(t, func(c *Config) {
		c.Decided = func(*admission.Request, *admission.Decision, time.Duration) { panic("on purpose") }
	})
	if w := call(b.Public(), "POST", placePath, orderBody); w.Code != http.StatusInternalServerError {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if b.capacity.inUse != 0 {
		t.Errorf("%d still in", b.capacity.inUse)
	}
}

// watchedCaptcha records how many orders are being decided while a solution is verified.
type watchedCaptcha struct {
	*oddCaptcha
	b      *bed
	inside []int
}

func (w *watchedCaptcha) Verify(ctx context.Context, token string, binding captcha.Binding, ip netip.Addr) error {
	_, n := w.b.Capacity()
	w.inside = append(w.inside, n)
	return w.oddCaptcha.Verify(ctx, token, binding, ip)
}

// TestSolutionsTakeNoRoom: a slow provider blocks no other orders, and its time does not count as this process's.
func TestSolutionsTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watched := &watchedCaptcha{oddCaptcha: &oddCaptcha{takes: 2 * time.Second}}
		watched.b = setup(t, withCaptcha(t, "- {name: prove, algorithm: direct, action: challenge}"), func(c *Config) {
			watched.Provider, c.Captcha = c.Captcha, watched
		})
		for _, refused := range []error{nil, &captcha.RefusedError{Cause: captcha.CauseWrong}} {
			watched.err = refused
			w := call(watched.b.Public(), "POST", placePath, orderBody, "X-Captcha", "x")
			if want := map[bool]int{true: http.StatusAccepted, false: http.StatusForbidden}[refused == nil]; w.Code != want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, want)
			}
		}
		if !slices.Equal(watched.inside, []int{0, 0}) {
			t.Errorf("%v in while solutions were verified", watched.inside)
		}
		if c := watched.b.capacity; c.inUse != 0 || c.window.late != 0 {
			t.Errorf("%d still in, %d late", c.inUse, c.window.late)
		}
	})
}

// TestLateDecisionsCountWhateverTheRequestSays: a header has no effect; a late decision counts as late, and a refusal does not
// count.
func TestLateDecisionsCountWhateverTheRequestSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *Config) {
			c.Decided = func(*admission.Request, *admission.Decision, time.Duration) { time.Sleep(decideTime) }
		})
		b.capacity.window.end = time.Now().Add(time.Hour)
		call(b.Public(), "POST", placePath, orderBody, "X-Captcha", "x")
		b.gate.decision = admission.Decision{Reason: admission.RateLimited, Action: admission.ActionDeny}
		call(b.Public(), "POST", placePath, orderBody)
		if w := b.capacity.window; w.late != 1 || w.count != 1 {
			t.Errorf("%d of %d late, want 1 of 1", w.late, w.count)
		}
	})
}
