package login_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/login"
)

// A wait that grows for ever must neither overflow nor end (Keycloak #30939).
func TestGrowingWaitStopsAtItsMost(t *testing.T) {
	rules := map[login.Action]string{
		login.Deny:      "  - {count: name_ip, limit: 1, window: 1s, then: deny, for: 1ms, growing: true, at_most: 720h}",
		login.Delay:     "  - {count: ip, limit: 1, window: 720h, then: delay, for: 720h, growing: true, at_most: 720h}",
		login.Challenge: "  - {count: name, limit: 1, window: 1s, then: challenge, for: 1s, growing: true, at_most: 720h}",
	}
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		for action, rule := range rules {
			start := c.now()
			th := throttle(t, store, rulesOf(t, rule), login.Options{})
			a := attempt("alice", "192.0.2.1")
			last := time.Duration(0)
			for i := range 300 {
				if d, _ := try(t, th, a, login.Failure); d.Action != login.Allow {
					t.Fatalf("%s, failure %d: %+v", action, i+1, d)
				}
				d, err := th.Check(t.Context(), a)
				if err != nil || d.Action != action || d.Degraded || d.RetryAfter < last || d.RetryAfter <= 0 || d.RetryAfter > 720*time.Hour {
					t.Fatalf("%s, after failure %d: %+v, %v, before %v", action, i+1, d, err, last)
				}
				if last < 360*time.Hour && i > 0 && d.RetryAfter != 2*last {
					t.Fatalf("%s, after failure %d: %v, before %v", action, i+1, d.RetryAfter, last)
				}
				last = d.RetryAfter
				c.advance(last)
			}
			if last != 720*time.Hour {
				t.Errorf("%s: in the end %v", action, last)
			}
			c.advance(721*time.Hour + time.Second) // as long as it is remembered
			if d, _ := try(t, th, a, login.Failure); d.Action != login.Allow {
				t.Errorf("%s: %+v", action, d)
			}
			if d, err := th.Check(t.Context(), a); err != nil || action != login.Delay && d.RetryAfter > time.Second {
				t.Errorf("%s, after a long peace: %+v, %v", action, d, err)
			}
			c.us.Store(start)
		}
	})
}

// A clock that is set back must not let anybody in, nor keep anybody out for longer than what it was set back by.
func TestClockThatStepsBack(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rulesOf(t, "  - {count: name_ip, limit: 3, window: 1m, then: deny, for: 5m}"), login.Options{})
		a := attempt("alice", "192.0.2.1")
		pending, err := th.Reserve(t.Context(), a)
		if err != nil || pending.ID == "" {
			t.Fatal(pending, err)
		}
		for range 2 {
			try(t, th, a, login.Failure)
		}
		c.advance(-time.Hour)
		if d, err := th.Check(t.Context(), a); err != nil || d.Action != login.Delay || d.Reason != login.ReasonInFlight {
			t.Errorf("two failed and one under way: %+v, %v", d, err)
		}
		if _, err := th.Settle(t.Context(), pending.ID, login.Failure); err != nil {
			t.Fatal(err)
		}
		if d, err := th.Check(t.Context(), a); err != nil || d.Action != login.Deny || d.RetryAfter != 5*time.Minute {
			t.Errorf("an hour earlier: %+v, %v", d, err)
		}
		c.advance(time.Hour + 5*time.Minute)
		if d, err := th.Check(t.Context(), a); err != nil || d.Action != login.Allow {
			t.Errorf("later: %+v, %v", d, err)
		}
	})
}

// States do not grow without bound, whatever the number of attempts.
func TestStatesStaySmall(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rulesOf(t, "  - {count: ip, limit: 1000, window: 1h, then: ban, for: 1h}"), login.Options{})
		for i := range 900 {
			d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1"))
			if err != nil || d.Action != login.Allow {
				t.Fatalf("%d: %+v, %v", i, d, err)
			}
		}
		if n := th.Units(t.Context(), "alice"); n == 0 || n > 17 {
			t.Errorf("the name, of which no rule knows, keeps %d units", n)
		}
	})
}
