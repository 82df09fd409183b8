package serve

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
	"github.com/tidegate/tidegate/orders/shop"
)

// away returns the environment of programs whose Redis is behind a Distance.
func away(t testing.TB, roundTrip time.Duration, timeout string) (*testenv.Distance, func(string) string) {
	t.Helper()
	redis := testenv.StartRedis(t)
	d := testenv.NewDistance(t, redis.Addr(), roundTrip)
	env := environment("redis://"+d.Addr()+"/0", databases.Postgres(t))
	return d, with(env, "REDIS_TIMEOUT", timeout)
}

// A Redis 150 ms away is too far for the default timeout: a running API is not ready and names the cause, and a start fails
// with what to do.
func TestRedisTooFarAway(t *testing.T) {
	t.Parallel()
	d, env := away(t, 0, "")
	startWorker(t, env)
	s := openShop(t, startAPI(t, env), 1000)
	s.bought("ann")
	d.Set(150 * time.Millisecond)
	servetest.Until(t, http.StatusServiceUnavailable, func() servetest.Answer { return s.place("ben") })
	a := servetest.Until(t, http.StatusServiceUnavailable, func() servetest.Answer { return servetest.Once("GET", s.URL("internal")+"/readyz", "") })
	if !strings.Contains(string(a.Body), "redis: Redis does not answer in time") || strings.Contains(string(a.Body), "database: ") {
		t.Errorf("%s", a)
	}
	d.Set(300 * time.Millisecond) // ten round trips would take longer than one attempt may
	cfg, err := config.Worker(nil, env, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	err = overServers(t.Context(), cfg, silent, "worker", 5*time.Second, func(*Process, *shop.Service, *Redis, *sql.DB) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "a round trip to Redis takes ") || !strings.Contains(err.Error(), "REDIS_TIMEOUT=100ms allows 33ms") {
		t.Errorf("%v", err)
	}

	d.Set(0)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", s.URL("internal")+"/readyz", "") })
	s.bought("ben")
}

// With a longer timeout such a Redis takes orders, and only a timeout below three round trips causes the warning. A busy machine adds
// a tenth of a second and more to each round trip; TestRoundTrip has the rule.
func TestRedisFarAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		roundTrip time.Duration
		timeout   string
		warned    bool
	}{{50 * time.Millisecond, "1s", false}, {150 * time.Millisecond, "400ms", true}} {
		t.Run(tt.roundTrip.String()+" of "+tt.timeout, func(t *testing.T) {
			t.Parallel()
			_, env := away(t, tt.roundTrip, tt.timeout)
			api, worker := startAPI(t, env), startWorker(t, env)
			s := openShop(t, api, 1000)
			s.confirmed(s.bought("ann"), "ann")
			for name, p := range map[string]*servetest.Program{"api": api, "worker": worker} {
				if got := strings.Contains(p.Output(), "Redis is far away"); got != tt.warned {
					t.Errorf("%s: warned: %v, want %v", name, got, tt.warned)
				}
			}
		})
	}
}

// pings answers each PING after the next of its durations.
type pings []time.Duration

func (*pings) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*pings) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p *pings) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error {
		d := (*p)[0]
		*p = (*p)[1:]
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	slow := slices.Repeat(pings{350 * ms}, 10)
	for name, tt := range map[string]struct {
		takes  pings
		within time.Duration // of the context
		want   time.Duration
		left   int // of takes
	}{
		"the first is near":            {append(pings{300 * ms}, slow...), time.Minute, 300 * ms, 10},
		"opens a connection first":     {append(pings{900 * ms, 200 * ms}, slow...), time.Minute, 200 * ms, 10},
		"busy nine times":              {append(slices.Clone(slow[:9]), 200*ms), time.Minute, 200 * ms, 0},
		"too far, perhaps busy":        {append(pings{340 * ms}, slow...), time.Minute, 340 * ms, 1},
		"more than twice too far":      {append(pings{900 * ms, 700 * ms, 800 * ms}, slow...), time.Minute, 700 * ms, 10},
		"no time for more":             {slices.Clone(slow), time.Second, 350 * ms, 7},
		"no time for one, so an error": {slices.Clone(slow), 300 * ms, 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.within)
				defer cancel()
				rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"})
				defer rdb.Close()
				rdb.AddHook(&tt.takes)
				got, err := roundTrip(ctx, rdb, 333*ms)
				if got != tt.want || (err != nil) != (tt.want == 0) || len(tt.takes) != tt.left {
					t.Errorf("%v, %v, and %d durations are left; want %v and %d", got, err, len(tt.takes), tt.want, tt.left)
				}
			})
		})
	}
}
