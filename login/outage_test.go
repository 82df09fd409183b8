package login_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/redisclient"
)

var quietly = slog.New(slog.DiscardHandler)

func redisAt(t *testing.T, server *testenv.RedisServer) *login.RedisStore {
	opts, err := redisclient.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.ReadTimeout = time.Hour // nothing but the throttle's own time-out ends a wait
	rdb := redis.NewUniversalClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return login.NewRedisStore(rdb)
}

// ownRedis is a throttle over a Redis of the test's own.
func ownRedis(t *testing.T, timeout time.Duration, args ...string) (*testenv.RedisServer, *login.Throttle) {
	server := testenv.StartRedis(t, args...)
	return server, throttle(t, redisAt(t, server), rules.Default, login.Options{Captcha: everything{}, Timeout: timeout, Logger: quietly})
}

// half demands that the process counts by itself: two guesses of a name instead of three.
func half(t *testing.T, th *login.Throttle, name string) {
	t.Helper()
	for i := range 2 {
		d, err := th.Reserve(t.Context(), attempt(name, "192.0.2.1"))
		if err != nil || d.Action != login.Allow || !d.Degraded {
			t.Fatalf("guess %d: %+v, %v", i+1, d, err)
		}
		if _, err := th.Settle(t.Context(), d.ID, login.Failure); err != nil {
			t.Errorf("an attempt that this process counted is settled here: %v", err)
		}
	}
	d, err := th.Reserve(t.Context(), attempt(name, "192.0.2.1"))
	if err != nil || d.Action != login.Challenge || !d.Degraded || d.Rule != "login-name-3-in-1m-challenge" {
		t.Errorf("the third guess: %+v, %v", d, err)
	}
}

func TestRedisAway(t *testing.T) {
	server, th := ownRedis(t, 5*time.Second)
	before, err := th.Reserve(t.Context(), attempt("bob", "192.0.2.2"))
	if err != nil || before.Action != login.Allow || before.Degraded {
		t.Fatal(before, err)
	}
	token := device(t, th, "alice")
	server.Kill()
	half(t, th, "alice")
	if _, err := th.Settle(t.Context(), before.ID, login.Success); !errors.Is(err, login.ErrUnavailable) {
		t.Errorf("an attempt that Redis counted: %v", err)
	}
	if _, err := th.RuleStates(t.Context(), login.Subject{Name: "alice"}); !errors.Is(err, login.ErrUnavailable) {
		t.Errorf("look: %v", err)
	}
	if err := th.Lift(t.Context(), login.Subject{Name: "alice"}); !errors.Is(err, login.ErrUnavailable) {
		t.Errorf("lift: %v", err)
	}
	if d, err := th.Check(t.Context(), attempt("alice", "192.0.2.1")); err != nil || d.Action != login.Allow || !d.Degraded {
		t.Errorf("what this process counted was not lifted: %+v, %v", d, err)
	}
	owner := attempt("alice", "203.0.113.1")
	owner.Device = token
	if d, _ := try(t, th, owner, login.Success); d.Action != login.Allow || !d.Degraded {
		t.Errorf("the holder of a token: %+v", d)
	}
	server.Restart()
	if s, err := th.Settle(t.Context(), before.ID, login.Success); err != nil || s.Device == "" {
		t.Errorf("Redis is back, and the attempt is settled: %+v, %v", s, err)
	}
	th.EndRest()
	if d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1")); err != nil || d.Degraded {
		t.Errorf("Redis is back: %+v, %v", d, err)
	}
}

// A Redis that accepts commands and never answers does not block logins, although the client would wait for an hour.
func TestRedisFrozen(t *testing.T) {
	server, th := ownRedis(t, 20*time.Millisecond)
	if d, err := th.Check(t.Context(), attempt("nobody", "192.0.2.9")); err != nil {
		t.Fatal(d, err)
	}
	server.Stop()
	defer server.Continue()
	half(t, th, "alice")
	var allowed int
	for i := range 50 {
		d, err := th.Reserve(t.Context(), attempt(fmt.Sprint("user", i), "192.0.2.3"))
		if err != nil || !d.Degraded {
			t.Fatalf("%+v, %v", d, err)
		}
		if d.Action == login.Allow {
			allowed++
		}
	}
	if allowed != 5 { // names from one address, ten of which are challenged
		t.Errorf("%d names were let in from one address", allowed)
	}
}

// A Redis without memory cannot count; that must not mean that everybody is let in.
func TestRedisFull(t *testing.T) {
	server, th := ownRedis(t, 5*time.Second, "--maxmemory-policy", "noeviction")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	half(t, th, "alice")
}

func TestMemoryFull(t *testing.T) {
	c := newClock()
	store := memoryStore(c)
	th := throttle(t, store, rulesOf(t, "  - {count: name, limit: 2, window: 1m, then: challenge}\n  - {count: ip, limit: 100, window: 1m, then: ban, for: 1m}"),
		login.Options{Logger: quietly})
	d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1"))
	if err != nil || d.Action != login.Allow {
		t.Fatal(d, err)
	}
	store.SetRoom(1)
	for i := range 20 { // by the store that stands in, with half the limits
		d, err := th.Reserve(t.Context(), attempt("bob", fmt.Sprint("192.0.2.", i)))
		if err != nil || !d.Degraded || d.Action == login.Allow && i > 0 {
			t.Fatalf("somebody new: %+v, %v", d, err)
		}
	}
	if _, err := th.Settle(t.Context(), d.ID, login.Failure); err != nil {
		t.Errorf("whoever is known is settled: %v", err)
	}
	if d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1")); err != nil || d.Action != login.Allow || d.Degraded {
		t.Errorf("whoever is known: %+v, %v", d, err)
	}
	for i := range 20 {
		a := attempt("alice", "192.0.2.1")
		a.ID = fmt.Sprint(i)
		if _, err := th.Reserve(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if n := store.Records(); n != 1 {
		t.Errorf("%d answers are kept, where there is room for one", n)
	}
	c.advance(24 * time.Hour * 2)
	if d, err := th.Reserve(t.Context(), attempt("carol", "192.0.2.1")); err != nil || d.Action != login.Allow || d.Degraded {
		t.Errorf("there is room again: %+v, %v", d, err)
	}
}

func TestRedisCluster(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(t)})
	defer rdb.Close()
	th := throttle(t, login.NewRedisStore(rdb), rules.Default, login.Options{Captcha: everything{}})
	a := attempt("alice", "2001:db8::1")
	a.Device, a.ID = device(t, th, "alice"), "1"
	for range 2 {
		if d, _ := try(t, th, a, login.Failure); d.Action != login.Allow || d.Degraded {
			t.Fatalf("%+v", d)
		}
	}
	attacked(t, th, "alice")
	if d, err := th.Check(t.Context(), attempt("alice", "192.0.2.99")); err != nil || d.Action != login.Challenge || d.Degraded {
		t.Errorf("%+v, %v", d, err)
	}
	all, err := th.RuleStates(t.Context(), login.Subject{Name: "alice", IP: a.IP})
	if err != nil || all[0].Failed != 3 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := th.Lift(t.Context(), login.Subject{Name: "alice"}); err != nil {
		t.Error(err)
	}
	if d, err := th.Check(t.Context(), attempt("alice", "192.0.2.99")); err != nil || d.Action != login.Allow {
		t.Errorf("lifted: %+v, %v", d, err)
	}
}
