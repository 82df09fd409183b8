package login_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/login"
)

func TestAClockThatIsSetRight(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		start := c.now()
		clockSetRight(t, store, func(ahead time.Duration) { c.us.Store(start + ahead.Microseconds()) })
	})
}

// Redis' own clock, by which its keys expire too.
func TestAClockOfRedisThatIsSetRight(t *testing.T) {
	server := testenv.StartRedisWithClock(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	clockSetRight(t, login.NewRedisStore(rdb), server.SetClock)
}

// clockSetRight tests a store whose clock is a day ahead and then set right: no penalty lasts longer than its rule demands. set sets how
// far the clock is ahead.
func clockSetRight(t *testing.T, store login.Store, set func(time.Duration)) {
	const day = 24 * time.Hour
	growing := rulesOf(t, "  - {count: name, limit: 3, window: 1m, then: challenge, for: 2m, growing: true, at_most: 10m}\n")
	streak := rulesOf(t, "  - {count: name, limit: 3, consecutive: true, then: challenge, for: 2m}\n")
	for name, c := range map[string]struct {
		set     func() *rules.Set
		longest time.Duration
	}{"built in": {rules.Default, 10 * time.Minute}, "growing": {growing, 2 * time.Minute}, "consecutive": {streak, 2 * time.Minute}} {
		th := throttle(t, store, c.set, login.Options{})
		set(day)
		for _, ip := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} {
			if d, _ := try(t, th, attempt("alice", ip), login.Failure); d.Action != login.Allow {
				t.Fatalf("%s: %+v", name, d)
			}
		}
		set(0)
		for _, passed := range []time.Duration{0, time.Minute} {
			set(passed)
			d, err := th.Check(t.Context(), attempt("alice", "192.0.2.1"))
			if err != nil || d.Action == login.Allow || d.RetryAfter > c.longest-passed {
				t.Errorf("%s, %v after the clock was set right: %+v, %v; want at most %v", name, passed, d, err, c.longest-passed)
			}
		}
		set(c.longest + time.Second)
		if d, err := th.Check(t.Context(), attempt("alice", "192.0.2.1")); err != nil || d.Action != login.Allow {
			t.Errorf("%s, at the end of the penalty: %+v, %v", name, d, err)
		}
	}
}
