package serve

import (
	"database/sql"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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

// With a longer timeout the same Redis takes orders, and only a timeout below three round trips causes the warning.
func TestRedisFarAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		roundTrip time.Duration
		timeout   string
		warned    bool
	}{{150 * time.Millisecond, "1s", false}, {200 * time.Millisecond, "1s", false}, {150 * time.Millisecond, "400ms", true}} {
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
