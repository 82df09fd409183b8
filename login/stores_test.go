package login_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/login"
)

var secret = []byte("a secret of the tests, 32 bytes.")

// A clock of the tests' own.
type clock struct{ us atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.us.Store(time.Now().UnixMicro()) // device tokens end by the clock on the wall
	return c
}

func (c *clock) now() int64              { return c.us.Load() }
func (c *clock) advance(d time.Duration) { c.us.Add(d.Microseconds()) }

func redisStore(t testing.TB, c *clock) *login.RedisStore {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { rdb.Close() })
	s := login.NewRedisStore(rdb)
	if c != nil {
		s.SetNow(c.now)
	}
	return s
}

func memoryStore(c *clock) *login.MemoryStore {
	s := login.NewMemoryStore()
	s.SetNow(c.now)
	return s
}

// eachStore runs test over both stores.
func eachStore(t *testing.T, test func(t *testing.T, store login.Store, c *clock)) {
	t.Run("redis", func(t *testing.T) {
		c := newClock()
		test(t, redisStore(t, c), c)
	})
	t.Run("memory", func(t *testing.T) {
		c := newClock()
		test(t, memoryStore(c), c)
	})
}

func rulesOf(t testing.TB, steps string) func() *rules.Set {
	set, err := rules.Parse("test.yaml", []byte("version: 1\nlogin:\n"+steps), login.Section)
	if err != nil {
		t.Fatal(err)
	}
	return func() *rules.Set { return set }
}

// throttle returns a throttle with unique names.
func throttle(t testing.TB, store login.Store, set func() *rules.Set, opts login.Options) *login.Throttle {
	opts.Secret = secret
	if opts.Namespace == "" {
		opts.Namespace = uuid.NewString()
	}
	if opts.Timeout == 0 {
		opts.Timeout = 10 * time.Second
	}
	th, err := login.New(store, set, opts)
	if err != nil {
		t.Fatal(err)
	}
	return th
}

func attempt(name, ip string) login.Attempt {
	return login.Attempt{Name: name, IP: netip.MustParseAddr(ip)}
}

// try reserves and, if that is allowed, settles.
func try(t testing.TB, th *login.Throttle, a login.Attempt, result login.Result) (login.Decision, login.Settled) {
	t.Helper()
	d, err := th.Reserve(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if d.Action != login.Allow {
		return d, login.Settled{}
	}
	s, err := th.Settle(t.Context(), d.ID, result)
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

func TestThirdFailureWithinAMinuteIsChallenged(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		a := attempt("alice", "203.0.113.7")
		for i := range 3 {
			if d, _ := try(t, th, a, login.Failure); d.Action != login.Allow {
				t.Fatalf("failure %d: %+v", i+1, d)
			}
			c.advance(19 * time.Second)
		}
		d, _ := try(t, th, a, login.Failure)
		if d.Action != login.Challenge || d.Reason != "name_failures" || d.Rule != "login-name-3-in-1m-challenge" || d.RetryAfter != 10*time.Minute-19*time.Second {
			t.Errorf("%+v", d)
		}
		if d, _ := try(t, th, attempt("bob", "203.0.113.7"), login.Success); d.Action != login.Allow {
			t.Errorf("another name: %+v", d)
		}
		c.advance(10*time.Minute - 19*time.Second)
		if d, _ := try(t, th, a, login.Success); d.Action != login.Allow {
			t.Errorf("ten minutes after the last failure: %+v", d)
		}
	})
}

func TestStoresAgree(t *testing.T) {
	rulesets := []func() *rules.Set{
		rules.Default,
		rulesOf(t, `
  - {count: name, limit: 2, window: 5s, then: challenge, for: 20s, growing: true, at_most: 1m}
  - {count: name, limit: 3, window: 20s, then: delay, for: 1s, growing: true, at_most: 8s}
  - {count: name, limit: 4, consecutive: true, then: challenge, for: 40s, shadow: true}
  - {count: name_ip, limit: 2, window: 10s, then: deny, for: 5s, growing: true, at_most: 20s}
  - {count: name_ip, limit: 3, consecutive: true, then: challenge}
  - {count: names_per_ip, limit: 2, window: 10s, then: delay, for: 3s}
  - {count: ip, limit: 5, window: 30s, then: ban, for: 5s}
  - {count: network, limit: 3, window: 30s, then: challenge}
  - {count: device, limit: 2, consecutive: true, then: revoke}`),
		rulesOf(t, "  - {count: ip, limit: 2, window: 40s, then: deny, for: 5s}\n  - {count: name, limit: 2, window: 40s, then: delay, for: 3s}"),
		rulesOf(t, "  - {count: name_ip, limit: 40, window: 40s, then: deny, for: 5s}\n  - {count: name, limit: 90, consecutive: true, then: challenge}"),
	}
	rdb := redisStore(t, nil)
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		rdb.SetNow(c.now)
		set := rapid.SampledFrom(rulesets).Draw(rt, "rules")
		namespace := uuid.NewString()
		var throttles [2]*login.Throttle
		for i, store := range []login.Store{rdb, memoryStore(c)} {
			throttles[i] = throttle(t, store, set, login.Options{Namespace: namespace, Captcha: everything{}})
		}
		var ids [2][]string
		devices := []string{""}
		// both does the same with both and returns what they say without the ids, which are random.
		same := func(what string, do func(th *login.Throttle, i int) any) {
			got, want := do(throttles[0], 0), do(throttles[1], 1)
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("%s: redis differs from memory:\n%s", what, diff)
			}
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			a := login.Attempt{
				Name:   rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(rt, "name"),
				IP:     netip.MustParseAddr(rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1"}).Draw(rt, "ip")),
				Factor: rapid.SampledFrom([]string{"", "", "", "otp"}).Draw(rt, "factor"),
				Device: rapid.SampledFrom(devices).Draw(rt, "device"), ID: rapid.SampledFrom([]string{"", "", "", "1", "2"}).Draw(rt, "id"),
				Captcha: rapid.SampledFrom([]string{"", "right", "wrong"}).Draw(rt, "captcha"),
			}
			decide := func(do func(*login.Throttle, context.Context, login.Attempt) (login.Decision, error)) {
				same(fmt.Sprintf("%+v", a), func(th *login.Throttle, i int) any {
					d, err := do(th, t.Context(), a)
					if d.ID != "" {
						ids[i] = append(ids[i], d.ID)
						d.ID = "some"
					}
					return []any{d, err}
				})
			}
			switch rapid.SampledFrom([]string{"reserve", "reserve", "reserve", "settle", "settle", "settle", "check", "report", "flood", "advance", "look", "lift"}).Draw(rt, "step") {
			case "reserve":
				decide((*login.Throttle).Reserve)
			case "flood": // more than a state has room for
				a.ID, a.Device = "", ""
				for range 35 {
					c.advance(time.Millisecond)
					decide((*login.Throttle).Reserve)
				}
			case "check":
				decide((*login.Throttle).Check)
			case "report":
				decide((*login.Throttle).Report)
			case "settle":
				if len(ids[0]) == 0 {
					continue
				}
				which := rapid.IntRange(0, len(ids[0])-1).Draw(rt, "which")
				result := rapid.SampledFrom([]login.Result{login.Success, login.Failure, login.Failure, login.Error}).Draw(rt, "result")
				same("settle", func(th *login.Throttle, i int) any {
					s, err := th.Settle(t.Context(), ids[i][which], result)
					if s.Device != "" && i == 0 {
						devices = append(devices, s.Device)
					}
					return []any{s.Device != "", fmt.Sprint(err)}
				})
			case "advance":
				c.advance(time.Duration(rapid.Int64Range(1, int64(40*time.Second)).Draw(rt, "by")))
			case "look":
				same("look", func(th *login.Throttle, _ int) any {
					s, err := th.RuleStates(t.Context(), login.Subject{Name: a.Name, IP: a.IP, Factor: a.Factor})
					return []any{s, err}
				})
			case "lift":
				same("lift", func(th *login.Throttle, _ int) any {
					return th.Lift(t.Context(), login.Subject{Name: a.Name, IP: a.IP})
				})
			}
		}
	})
}
