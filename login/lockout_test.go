package login_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/netaddr"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/login"
)

// fakeBans is login.Bans by a clock of the tests' own.
type fakeBans struct {
	clock *clock

	mu     sync.Mutex
	until  map[string]int64 // guarded by mu; µs, by target
	times  map[string]int   // guarded by mu; bans in a row
	orders []bans.Order
}

func newBans(c *clock) *fakeBans {
	return &fakeBans{clock: c, until: map[string]int64{}, times: map[string]int{}}
}

func (b *fakeBans) Banned(req admission.Request) (bans.Ban, time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, target := range []string{req.User, netaddr.Address(req.IP), netaddr.Network(req.IP)} {
		if left := b.until[target] - b.clock.now(); target != "" && left > 0 {
			return bans.Ban{Rule: "test"}, time.Duration(left) * time.Microsecond, true
		}
	}
	return bans.Ban{}, 0, false
}

func (b *fakeBans) Ban(_ context.Context, order bans.Order) (bans.Ban, error) {
	target, err := bans.ParseTarget(string(order.Kind), order.Value)
	if err != nil {
		return bans.Ban{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.now()
	if b.times[target.Value]++; now > b.until[target.Value]+order.AtMost.Microseconds() {
		b.times[target.Value] = 1
	}
	length := order.For
	for i := 1; order.Growing && i < b.times[target.Value] && length < order.AtMost; i++ {
		length *= 2
	}
	b.until[target.Value] = now + length.Microseconds()
	b.orders = append(b.orders, order)
	return bans.Ban{}, nil
}

func (b *fakeBans) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.orders)
}

// device logs in by name from a quiet address and returns the token that this is worth.
func device(t testing.TB, th *login.Throttle, name string) string {
	t.Helper()
	d, s := try(t, th, attempt(name, "198.51.100.200"), login.Success)
	if d.Action != login.Allow || s.Device == "" {
		t.Fatalf("%+v, %+v", d, s)
	}
	return s.Device
}

// Knowing a name must not allow locking out its owner (CVE-2024-1722 of Keycloak).
func TestStrangerCannotLockOwnerOut(t *testing.T) {
	attacks := map[string]struct {
		addresses, rounds int
		pause             time.Duration
	}{
		"from one address":             {1, testenv.Size(600, 1800), 2 * time.Second},
		"from one address, slowly":     {1, 200, 70 * time.Second},
		"from three hundred at a time": {300, testenv.Size(10, 40), 10 * time.Second},
	}
	for how, attack := range attacks {
		t.Run(how, func(t *testing.T) {
			eachStore(t, func(t *testing.T, store login.Store, c *clock) {
				th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}, Bans: newBans(c)})
				token := device(t, th, "owner")
				guesses := 0
				for range attack.rounds {
					for i := range attack.addresses {
						a := attempt("owner", fmt.Sprintf("192.0.%d.%d", i/250, i%250))
						a.Captcha = "right"
						if d, _ := try(t, th, a, login.Failure); d.Action == login.Allow {
							guesses++
						}
					}
					c.advance(attack.pause)
				}
				if guesses < 10 {
					t.Fatalf("the attack made %d guesses, which is none", guesses)
				}
				known := attempt("owner", "203.0.113.1")
				known.Device = token
				if d, _ := try(t, th, known, login.Success); d.Action != login.Allow {
					t.Errorf("the owner with a device token: %+v", d)
				}
				fresh := attempt("owner", "203.0.113.2")
				if d, _ := try(t, th, fresh, login.Success); d.Action != login.Allow && d.Action != login.Challenge {
					t.Errorf("the owner from an address of his own: %+v", d)
				}
				fresh.Captcha = "right"
				if d, _ := try(t, th, fresh, login.Success); d.Action != login.Allow {
					t.Errorf("the owner from an address of his own with a solution: %+v", d)
				}
			})
		})
	}
}

// A success of another user, or of an attacker with their own account, must not reset counters (Keycloak #49960).
func TestSuccessElsewhereClearsNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		b := newBans(c)
		th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}, Bans: b})
		t.Run("of the name", func(t *testing.T) {
			guess := attempt("victim", "192.0.2.66")
			for range 3 {
				if d, _ := try(t, th, guess, login.Failure); d.Action != login.Allow {
					t.Fatalf("%+v", d)
				}
				try(t, th, attempt("victim", "203.0.113.9"), login.Success)
			}
			if d, _ := try(t, th, guess, login.Failure); d.Action != login.Challenge || d.Reason != "name_failures" {
				t.Errorf("after three failures: %+v", d)
			}
		})
		t.Run("of the address", func(t *testing.T) {
			for i := range 30 {
				if b.count() > 0 {
					t.Fatalf("banned after %d failures", i)
				}
				guess := attempt(fmt.Sprint("user", i), "192.0.2.67")
				guess.Captcha = "right"
				if d, _ := try(t, th, guess, login.Failure); d.Action != login.Allow {
					t.Fatalf("guess %d: %+v", i, d)
				}
				own := attempt("mallory", "192.0.2.67")
				own.Captcha = "right"
				if d, _ := try(t, th, own, login.Success); i < 29 && d.Action != login.Allow {
					t.Fatalf("login %d: %+v", i, d)
				}
			}
			if b.count() != 1 {
				t.Errorf("%d bans, want 1", b.count())
			}
		})
	})
}

// The refusals of a penalty must not prolong it (charon #939, django-axes).
func TestPenaltyDoesNotFeedItself(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		b := newBans(c)
		rules := rulesOf(t, "  - {count: name_ip, limit: 3, window: 1m, then: deny, for: 5m, growing: true, at_most: 1h}\n"+
			"  - {count: ip, limit: 4, window: 1m, then: ban, for: 10m, growing: true, at_most: 24h}")
		th := throttle(t, store, rules, login.Options{Bans: b})
		pair := attempt("alice", "192.0.2.1")
		for range 3 {
			try(t, th, pair, login.Failure)
		}
		for left := 5 * time.Minute; left > 0; left -= 10 * time.Second {
			for _, ask := range []func(*login.Throttle, context.Context, login.Attempt) (login.Decision, error){
				(*login.Throttle).Reserve, (*login.Throttle).Report, (*login.Throttle).Check,
			} {
				d, err := ask(th, t.Context(), pair)
				if err != nil || d.Action != login.Deny || d.RetryAfter != left {
					t.Fatalf("%v before the end: %+v, %v", left, d, err)
				}
			}
			c.advance(10 * time.Second)
		}
		if d, _ := try(t, th, pair, login.Error); d.Action != login.Allow {
			t.Fatalf("after the denial: %+v", d)
		}
		for i := range 4 {
			try(t, th, attempt(fmt.Sprint("user", i), "192.0.2.2"), login.Failure)
		}
		if d, err := th.Report(t.Context(), attempt("bob", "192.0.2.2")); err != nil || d.RetryAfter != 10*time.Minute {
			t.Fatalf("%+v, %v", d, err)
		}
		for left := 10 * time.Minute; left > 0; left -= 10 * time.Second {
			for i := range 5 {
				d, err := th.Report(t.Context(), attempt(fmt.Sprint("other", i), "192.0.2.2"))
				if err != nil || d.Action != login.Deny || d.Reason != login.ReasonBanned || d.RetryAfter != left {
					t.Fatalf("%v before the end of the ban: %+v, %v", left, d, err)
				}
			}
			c.advance(10 * time.Second)
		}
		if d, _ := try(t, th, attempt("bob", "192.0.2.2"), login.Failure); d.Action != login.Allow || b.count() != 1 {
			t.Fatalf("after the ban: %+v, %d bans", d, b.count())
		}
		if o := b.orders[0]; o.Value != "192.0.2.2" || o.Rule != "login-ip-4-in-1m-ban" || o.For != 10*time.Minute || !o.Growing || o.AtMost != 24*time.Hour {
			t.Errorf("the ban that was ordered: %+v", o)
		}
	})
}

// A penalty stays in force when its failures have left the window, and after a success in between.
func TestPenaltyOutlivesItsFailures(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		rules := rulesOf(t, "  - {count: name, limit: 5, window: 10s, then: challenge, for: 10m}")
		th := throttle(t, store, rules, login.Options{Captcha: everything{}})
		a := attempt("alice", "192.0.2.1")
		for range 5 {
			try(t, th, a, login.Failure)
		}
		c.advance(time.Minute)
		solved := a
		solved.Captcha = "right"
		if d, _ := try(t, th, solved, login.Error); d.Action != login.Allow {
			t.Fatalf("%+v", d)
		}
		if d, err := th.Reserve(t.Context(), a); err != nil || d.Action != login.Challenge || d.RetryAfter != 9*time.Minute {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// Nor must those prolong it whom it does not stop: holders of device tokens behind the same address.
func TestOthersDoNotFeedAPenalty(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rulesOf(t, "  - {count: ip, limit: 3, window: 10m, then: deny, for: 5m, growing: true}"), login.Options{})
		colleague := attempt("alice", "192.0.2.1")
		colleague.Device = device(t, th, "alice")
		for i := range 3 {
			try(t, th, attempt(fmt.Sprint("user", i), "192.0.2.1"), login.Failure)
		}
		for left := 5 * time.Minute; left > 0; left -= time.Minute {
			if d, _ := try(t, th, colleague, login.Failure); d.Action != login.Allow {
				t.Fatalf("a colleague: %+v", d)
			}
			if d, err := th.Check(t.Context(), attempt("bob", "192.0.2.1")); err != nil || d.Action != login.Deny || d.RetryAfter != left {
				t.Fatalf("%v before the end: %+v, %v", left, d, err)
			}
			c.advance(time.Minute)
		}
	})
}

// What guards one entry guards all of them (CVE-2026-9798 of Keycloak).
func TestEveryEntryHasTheSameGuards(t *testing.T) {
	type ask = func(*login.Throttle, context.Context, login.Attempt) (login.Decision, error)
	entries := map[string]ask{"reserve": (*login.Throttle).Reserve, "check": (*login.Throttle).Check, "report": (*login.Throttle).Report}
	guards := map[login.Action]string{
		login.Challenge: "  - {count: name, limit: 2, window: 1m, then: challenge, for: 1m}",
		login.Delay:     "  - {count: name_ip, limit: 2, window: 1m, then: delay, for: 1m}",
		login.Deny:      "  - {count: name_ip, limit: 2, window: 1m, then: deny, for: 1m}",
		"banned":        "  - {count: ip, limit: 2, window: 1m, then: ban, for: 1m}",
	}
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		for want, rule := range guards {
			for entry, ask := range entries {
				th := throttle(t, store, rulesOf(t, rule), login.Options{Bans: newBans(c), Captcha: everything{}})
				a := attempt("alice", "192.0.2.1")
				for range 2 {
					try(t, th, a, login.Failure)
				}
				a.Captcha = "wrong" // nobody is let in by the mere presence of one
				d, err := ask(th, t.Context(), a)
				if err != nil || d.ID != "" || d.Action != want && (want != "banned" || d.Reason != login.ReasonBanned) {
					t.Errorf("%s, should be %s: %+v, %v", entry, want, d, err)
				}
			}
		}
	})
}

// A reservation is good for the 30 seconds that a password's check takes, also if the address is banned meanwhile; the next one is not.
func TestReservationFromBeforeABanIsSettled(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		b := newBans(c)
		th := throttle(t, store, rules.Default, login.Options{Bans: b})
		before, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1"))
		if err != nil || before.ID == "" {
			t.Fatal(before, err)
		}
		if _, err := b.Ban(t.Context(), bans.Order{Target: bans.Target{Kind: bans.IP, Value: "192.0.2.1"}, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		s, err := th.Settle(t.Context(), before.ID, login.Success)
		if err != nil || s.Device == "" {
			t.Errorf("%+v, %v", s, err)
		}
		next := login.Attempt{Name: "alice", IP: netip.MustParseAddr("192.0.2.1"), Device: s.Device, Captcha: "right"}
		if d, err := th.Reserve(t.Context(), next); err != nil || d.Action != login.Deny || d.Reason != login.ReasonBanned {
			t.Errorf("a device token opens a ban: %+v, %v", d, err)
		}
	})
}
