package httpapi

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/orders"
)

const decideTime = 200 * time.Millisecond

// TestAtCapacity: an order without room gets a Retry-After, and is not charged.
func TestAtCapacity(t *testing.T) {
	b := setup(t, func(c *Config) { c.DecideWithin = 2 * time.Millisecond })
	limit, _ := b.Capacity()
	stays := make([]loadshed.Stay, limit)
	for i := range stays {
		stays[i], _, _ = b.capacity.Enter()
	}
	w := call(b.Public(), "POST", placePath, orderBody)
	if p := problemIn(t, w); w.Code != http.StatusServiceUnavailable || p.Reason != string(orders.ReasonAtCapacity) || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if len(b.gate.asked) != 0 || slices.Contains(b.orders.calls, "reserve") {
		t.Errorf("charged %v, %v", b.gate.asked, b.orders.calls)
	}
	for i := range stays {
		stays[i].Leave(false)
	}
	if w := call(b.Public(), "POST", placePath, orderBody); w.Code != http.StatusAccepted {
		t.Errorf("with room: %d %s", w.Code, w.Body)
	}
	if _, inUse := b.Capacity(); inUse != 0 {
		t.Errorf("%d still in", inUse)
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
	if _, inUse := b.Capacity(); inUse != 0 {
		t.Errorf("%d still in", inUse)
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
		if limit, inUse := watched.b.Capacity(); inUse != 0 || limit != 256 {
			t.Errorf("%d still in, and the limit is %d: a decision counted as late", inUse, limit)
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
		call(b.Public(), "POST", placePath, orderBody, "X-Captcha", "x")
		b.gate.decision = admission.Decision{Reason: admission.RateLimited, Action: rules.Deny}
		call(b.Public(), "POST", placePath, orderBody)
		if limit, _ := b.Capacity(); limit != 192 {
			t.Errorf("the limit is %d, want 192, which is 256 after one late decision", limit)
		}
	})
}
