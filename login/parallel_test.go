package login_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

// twoProcesses returns throttles of two processes that share what they count.
func twoProcesses(t *testing.T, store login.Store, c *clock, set func() *rules.Set) [2]*login.Throttle {
	opts := login.Options{Namespace: uuid.NewString(), Captcha: everything{}}
	other := store
	if _, ok := store.(*login.RedisStore); ok {
		other = redisStore(t, c)
	}
	return [2]*login.Throttle{throttle(t, store, set, opts), throttle(t, other, set, opts)}
}

// atOnce calls do with 0 to n-1 at the same time.
func atOnce(n int, do func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	wg.Wait()
}

// Guesses that are sent at once must not pass before the first is counted (CVE-2024-4629 of Keycloak).
func TestParallelGuessesShareTheLimit(t *testing.T) {
	const guesses = 1000
	tests := []struct {
		what, rule string
		limit      int
		name, ip   func(i int) string
	}{
		{"a name from anywhere", "{count: name, limit: 3, window: 1m, then: challenge, for: 1m}", 3, one("victim"), many("10.0.%d.%d")},
		{"a name from one address", "{count: name_ip, limit: 10, window: 15m, then: deny, for: 5m}", 10, one("victim"), one("10.0.0.1")},
		{"names from one address", "{count: names_per_ip, limit: 7, window: 1m, then: challenge, for: 1m}", 7, many("user%d.%d"), one("10.0.0.1")},
		{"an address", "{count: ip, limit: 30, window: 10m, then: ban, for: 10m}", 30, many("user%d.%d"), one("10.0.0.1")},
		{"a network", "{count: network, limit: 50, window: 10m, then: challenge}", 50, many("user%d.%d"), many("2001:db8:0:%d%02d::1")},
		{"a name in a row", "{count: name, limit: 5, consecutive: true, then: challenge}", 5, one("victim"), many("10.0.%d.%d")},
		{"a name in a row, long", "{count: name, limit: 300, consecutive: true, then: challenge}", 300, one("victim"), many("10.0.%d.%d")},
		{"a name from one address in a row", "{count: name_ip, limit: 64, consecutive: true, then: deny}", 64, one("victim"), one("10.0.0.1")},
	}
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		for _, tt := range tests {
			t.Run(tt.what, func(t *testing.T) {
				throttles := twoProcesses(t, store, c, rulesOf(t, "  - "+tt.rule))
				decisions := make([]login.Decision, guesses)
				atOnce(guesses, func(i int) {
					d, err := throttles[i%2].Reserve(t.Context(), attempt(tt.name(i), tt.ip(i)))
					if err != nil || d.Degraded {
						t.Errorf("%+v, %v", d, err)
					}
					decisions[i] = d
				})
				var allowed []string
				for _, d := range decisions {
					switch {
					case d.Action == login.Allow:
						allowed = append(allowed, d.ID)
					case d.Action != login.Delay || d.Reason != login.ReasonInFlight || d.RetryAfter <= 0:
						t.Fatalf("%+v", d) // nobody has failed yet
					}
				}
				if len(allowed) != tt.limit {
					t.Fatalf("%d of %d guesses were let in, want %d", len(allowed), guesses, tt.limit)
				}
				atOnce(len(allowed), func(i int) {
					if _, err := throttles[i%2].Settle(t.Context(), allowed[i], login.Failure); err != nil {
						t.Error(err)
					}
				})
				if d, err := throttles[0].Check(t.Context(), attempt(tt.name(0), tt.ip(0))); err != nil || d.Action == login.Allow && tt.what != "an address" {
					t.Errorf("after %d failures: %+v, %v", tt.limit, d, err)
				}
			})
		}
	})
}

func one(s string) func(int) string { return func(int) string { return s } }

func many(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i/100, i%100) }
}

// The repair of the above must not refuse valid logins that come at once (Keycloak #48272): they wait for each other.
func TestConcurrentValidLoginsGetIn(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		throttles := twoProcesses(t, store, c, rules.Default)
		const logins = 50
		var in [logins]bool
		rounds := 0
		for left := logins; left > 0; rounds++ {
			if rounds > logins {
				t.Fatalf("%d logins have not got in", left)
			}
			var mu sync.Mutex
			atOnce(logins, func(i int) {
				if in[i] {
					return
				}
				d, err := throttles[i%2].Reserve(t.Context(), attempt("service", fmt.Sprint("10.0.0.", i)))
				switch {
				case err != nil:
					t.Error(err)
				case d.Action == login.Allow:
					if _, err := throttles[i%2].Settle(t.Context(), d.ID, login.Success); err != nil {
						t.Error(err)
					}
					mu.Lock()
					in[i] = true
					left--
					mu.Unlock()
				case d.Action != login.Delay || d.Reason != login.ReasonInFlight || d.RetryAfter > time.Second:
					t.Errorf("%+v", d)
				}
			})
			if t.Failed() {
				return
			}
			c.advance(time.Second)
		}
		t.Logf("%d logins in %d rounds", logins, rounds)
		if d, err := throttles[0].Check(t.Context(), attempt("service", "10.0.0.1")); err != nil || d.Action != login.Allow {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestTwoDevicesAtOnceAreNotRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		var ids [2]string
		for i := range ids {
			d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1"))
			if err != nil || d.Action != login.Allow {
				t.Fatalf("%+v, %v", d, err)
			}
			ids[i] = d.ID
		}
		for _, id := range ids {
			if _, err := th.Settle(t.Context(), id, login.Success); err != nil {
				t.Error(err)
			}
		}
		standing(t, th, "alice", "192.0.2.1", 0, 0)
	})
}

// standing requires this many failures and pending attempts for a name, whatever the rule.
func standing(t testing.TB, th *login.Throttle, name, ip string, failed, inFlight int) {
	t.Helper()
	all, err := th.RuleStates(t.Context(), login.Subject{Name: name, IP: attempt(name, ip).IP})
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, s := range all {
		if s.Failed != failed || s.InFlight != inFlight {
			t.Errorf("%s: %d failed and %d under way, want %d and %d", s.Rule, s.Failed, s.InFlight, failed, inFlight)
		}
	}
}

func TestUnsettledAttemptFailsOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		rules := rulesOf(t, `
  - {count: name, limit: 10, window: 15m, then: challenge, for: 1m}
  - {count: name, limit: 10, consecutive: true, then: challenge}
  - {count: name_ip, limit: 10, window: 15m, then: deny, for: 1m}
  - {count: names_per_ip, limit: 10, window: 15m, then: challenge, for: 1m}
  - {count: ip, limit: 10, window: 15m, then: ban, for: 1m}`)
		th := throttle(t, store, rules, login.Options{})
		a := attempt("alice", "192.0.2.1")
		d, err := th.Reserve(t.Context(), a)
		if err != nil || d.ID == "" {
			t.Fatal(d, err)
		}
		c.advance(30*time.Second - time.Microsecond)
		standing(t, th, "alice", "192.0.2.1", 0, 1)
		c.advance(time.Microsecond)
		for range 3 {
			standing(t, th, "alice", "192.0.2.1", 1, 0)
			if d, err := th.Check(t.Context(), a); err != nil || d.Action != login.Allow {
				t.Fatal(d, err)
			}
		}
		if _, err := th.Settle(t.Context(), d.ID, login.Success); !errors.Is(err, login.ErrSettled) {
			t.Errorf("success that comes late: %v", err)
		}
		if _, err := th.Settle(t.Context(), d.ID, login.Error); !errors.Is(err, login.ErrSettled) {
			t.Errorf("an error that comes late: %v", err)
		}
		for range 2 {
			if _, err := th.Settle(t.Context(), d.ID, login.Failure); err != nil {
				t.Errorf("failure that comes late: %v", err)
			}
		}
		standing(t, th, "alice", "192.0.2.1", 1, 0)
	})
}

// Guesses of one-time codes must not use up the tries for the password, nor the other way round (Keycloak #46164).
func TestFactorsAreCountedApart(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		a := attempt("alice", "192.0.2.1")
		a.Factor = "otp"
		for range 3 {
			try(t, th, a, login.Failure)
		}
		if d, _ := try(t, th, a, login.Failure); d.Action != login.Challenge {
			t.Errorf("otp: %+v", d)
		}
		for _, factor := range []string{"", "password", "reset"} {
			a.Factor = factor
			if d, _ := try(t, th, a, login.Error); d.Action != login.Allow {
				t.Errorf("%s: %+v", factor, d)
			}
		}
	})
}

// Pending attempts must not evict other units of the address: the limit would then have no effect.
func TestAttemptsPushNothingOut(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		t.Run("under way", func(t *testing.T) {
			th := throttle(t, store, rulesOf(t, "  - {count: name_ip, limit: 10, window: 15m, then: deny, for: 5m}"), login.Options{})
			allowed := map[string]int{}
			for i := range 300 {
				name := "victim"
				if i >= 10 && i < 290 {
					name = fmt.Sprint("user", i)
				}
				d, err := th.Reserve(t.Context(), attempt(name, "10.0.0.1"))
				if err != nil || d.Action != login.Allow && (d.Action != login.Delay || d.Reason != login.ReasonInFlight) {
					t.Fatalf("%+v, %v", d, err)
				}
				if d.Action == login.Allow {
					allowed[name]++
				}
			}
			if allowed["victim"] != 10 || len(allowed) < 20 {
				t.Errorf("%d attempts by one name and %d others are under way", allowed["victim"], len(allowed)-1)
			}
			c.advance(31 * time.Second)
			if d, err := th.Check(t.Context(), attempt("victim", "10.0.0.1")); err != nil || d.Action != login.Deny {
				t.Errorf("all ten have failed: %+v, %v", d, err)
			}
		})
		t.Run("failed", func(t *testing.T) {
			b := newBans(c)
			th := throttle(t, store, rulesOf(t, "  - {count: names_per_ip, limit: 10, window: 15m, then: ban, for: 5m}"), login.Options{Bans: b})
			for i := range 8 {
				try(t, th, attempt(fmt.Sprint("user", i), "10.0.0.2"), login.Failure)
			}
			var ids []string
			for range 200 {
				d, err := th.Reserve(t.Context(), attempt("mallory", "10.0.0.2"))
				if err != nil {
					t.Fatal(err)
				}
				if d.Action == login.Allow {
					ids = append(ids, d.ID)
				}
			}
			for _, id := range ids {
				if _, err := th.Settle(t.Context(), id, login.Success); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 2 {
				try(t, th, attempt(fmt.Sprint("another", i), "10.0.0.2"), login.Failure)
			}
			if b.count() != 1 {
				t.Errorf("%d logins to an account of his own made eight failures forgotten", len(ids))
			}
		})
	})
}
