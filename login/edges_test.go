package login_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/login"
)

// A client with the password gets any number of device tokens; none of them exempts it from the limits of the one-time code.
func TestAPasswordDoesNotBuyGuessesAtTheCode(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		guesses := 0
		for i := range 20 {
			a := attempt("alice", fmt.Sprintf("192.0.2.%d", i))
			_, s := try(t, th, a, login.Success)
			if s.Device == "" {
				t.Fatal("no token")
			}
			a.Factor, a.Device = "otp", s.Device
			for range 5 {
				if d, _ := try(t, th, a, login.Failure); d.Action == login.Allow {
					guesses++
				}
			}
			c.advance(time.Second)
		}
		if guesses != 3 {
			t.Errorf("%d guesses at the code, want 3 and then a challenge", guesses)
		}
		_, s := try(t, th, login.Attempt{Name: "bob", IP: netip.MustParseAddr("192.0.2.200"), Factor: "otp"}, login.Success)
		for range 4 {
			if d, _ := try(t, th, login.Attempt{Name: "bob", IP: netip.MustParseAddr("192.0.2.200"), Factor: "otp", Device: s.Device}, login.Failure); d.Action != login.Allow {
				t.Errorf("a code's own token: %+v", d)
			}
		}
	})
}

// fullStore is a store without room, which is equivalent to an unavailable one.
func fullStore() login.Store {
	s := login.NewMemoryStore()
	s.SetRoom(0)
	return s
}

// Two processes behind a balancer, and no Redis: what one reserves the other settles. Right passwords must not look like failures.
func TestWithoutRedisAnOfficeGetsIn(t *testing.T) {
	c := newClock()
	var process [2]*login.Throttle
	for i := range process {
		process[i] = throttle(t, fullStore(), rules.Default, login.Options{Namespace: "one"})
		process[i].SetLocalNow(c.now)
	}
	for round := range 5 { // one second each
		for person := range 4 {
			d, err := process[0].Reserve(t.Context(), attempt(fmt.Sprintf("person-%d-%d", round, person), "203.0.113.9"))
			if err != nil || !d.Degraded {
				t.Fatalf("%+v, %v", d, err)
			}
			if d.Action != login.Allow {
				t.Errorf("person %d of second %d: %+v", person, round, d)
				continue
			}
			if _, err := process[1].Settle(t.Context(), d.ID, login.Success); err != nil {
				t.Error(err)
			}
		}
		c.advance(2 * time.Second)
	}
	// Wrong ones count where they are settled.
	for range 2 {
		d, err := process[0].Reserve(t.Context(), attempt("alice", "198.51.100.1"))
		if err != nil || d.Action != login.Allow {
			t.Fatalf("%+v, %v", d, err)
		}
		if _, err := process[1].Settle(t.Context(), d.ID, login.Failure); err != nil {
			t.Error(err)
		}
		c.advance(3 * time.Second)
	}
	if d, err := process[1].Reserve(t.Context(), attempt("alice", "198.51.100.1")); err != nil || d.Action != login.Challenge {
		t.Errorf("%+v, %v", d, err)
	}
}

// An address that sends thousands of solutions must wait; other addresses are not affected.
func TestSolutionsAreLimitedByAddress(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		left := 3
		verified := &counted{}
		th := throttle(t, store, rules.Default, login.Options{Captcha: verified, Solutions: func(context.Context, netip.Addr) (time.Duration, bool) {
			left--
			return 7 * time.Second, left >= 0
		}})
		attacked(t, th, "alice")
		a := attempt("alice", "203.0.113.1")
		a.Captcha = "wrong"
		for i := range 10 {
			d, err := th.Reserve(t.Context(), a)
			want := login.Decision{Action: login.Delay, Reason: login.ReasonTooManySolutions, RetryAfter: 7 * time.Second}
			if i < 3 {
				want.Action, want.Reason, want.RetryAfter = login.Challenge, login.ReasonCaptchaRefused, d.RetryAfter
			}
			if err != nil || d.Action != want.Action || d.Reason != want.Reason || d.RetryAfter != want.RetryAfter {
				t.Errorf("solution %d: %+v, %v", i+1, d, err)
			}
		}
		if verified.asked != 3 {
			t.Errorf("%d were verified", verified.asked)
		}
	})
}

// counted verifies nothing and remembers how often it was asked.
type counted struct{ asked int }

func (c *counted) Verify(ctx context.Context, token string, b captcha.Binding, ip netip.Addr) error {
	c.asked++
	return everything{}.Verify(ctx, token, b, ip)
}

// A /48 has 65,536 networks that cost nothing, so each of them being new to a name would bound no guesses.
func TestANetworkIsNewToANameOnlyAFewTimes(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}})
		for i := range 12 { // the name is delayed from here on
			a := attempt("alice", fmt.Sprintf("192.0.2.%d", i))
			a.Captcha = "right"
			try(t, th, a, login.Failure)
		}
		guesses := 0
		for i := range 1000 {
			a := attempt("alice", fmt.Sprintf("2001:db8:1:%x::1", i))
			a.Captcha = "right"
			if d, _ := try(t, th, a, login.Failure); d.Action == login.Allow {
				guesses++
			}
			c.advance(100 * time.Millisecond)
		}
		if guesses > 15 {
			t.Errorf("%d guesses from one /48 in 100 seconds", guesses)
		}
		owner := attempt("alice", "2001:db8:2::1")
		owner.Captcha = "right"
		if d, _ := try(t, th, owner, login.Success); d.Action != login.Allow {
			t.Errorf("another network is new: %+v", d)
		}
	})
}

// After a failover Redis' clock may be an hour behind. Pending attempts must not block the name for that hour.
func TestAClockThatStepsBackHoldsNobody(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		for i := range 3 {
			if d, err := th.Reserve(t.Context(), attempt("alice", fmt.Sprintf("192.0.2.%d", i))); err != nil || d.Action != login.Allow {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		c.advance(-time.Hour)
		if d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.9")); err != nil || d.Reason != login.ReasonInFlight {
			t.Errorf("%+v, %v", d, err)
		}
		c.advance(time.Minute)
		if d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.9")); err != nil || d.Action != login.Challenge {
			t.Errorf("they have failed: %+v, %v", d, err)
		}
		c.advance(11 * time.Minute)
		if d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.9")); err != nil || d.Action != login.Allow {
			t.Errorf("and are over: %+v, %v", d, err)
		}
	})
}
