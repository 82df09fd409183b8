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

// crowd sends so many callers at once, each of whom decides for a time, and returns how many found room.
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

// Who finds no room waits for half of a decision's time, and then goes without having taken any.
func TestCapacityIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(decideTime)
		c.window.end = time.Now().Add(time.Hour) // as much room all the time
		if got := crowd(c, 3*capacityFirst, 60*time.Millisecond); got != 2*capacityFirst {
			t.Errorf("%d of three turns of 60 ms found room within 100 ms, want those of the first two", got)
		}
		if c.inUse != 0 || c.waiting.Len() != 0 {
			t.Errorf("%d are in, %d wait, when all have gone", c.inUse, c.waiting.Len())
		}
	})
}

// Each who finds no room is told another time: in a second as many come back as half of the pace of decisions.
func TestCapacitySpreadsWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity(decideTime)
		for range 50 {
			crowd(c, 50, 100*time.Millisecond) // 500 a second
		}
		if c.pace < 450 || c.pace > 550 {
			t.Fatalf("a pace of %.0f a second, want 500", c.pace)
		}
		c.limit = 1 // else it is thought to be faster
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

// First come, first served: whoever comes later does not pass those who wait.
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

// While decisions are late there is less room, down to a least; while they are not and somebody waits, more and more.
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

// What says nothing of this process hides nothing: not that decisions are late, nor does it make room.
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

// An order for which there is no room is told to come back, and no rule is charged for it.
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

// A decision that panics leaves its room.
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

// watchedCaptcha tells how many orders are being decided while a solution is verified.
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

// A provider that is slow keeps nobody out, and what it takes says nothing of this process.
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

// A header alone changes nothing: a decision that is late counts as late, and a refusal as nothing.
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
