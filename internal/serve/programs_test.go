package serve

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
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

// environment returns the environment of all processes of one installation.
func environment(redis, database string) func(string) string {
	vars := map[string]string{
		"REDIS_URL": redis, "DATABASE_URL": database, "MIGRATE": "true", "NAMESPACE": "test-" + strings.ToLower(rand.Text()[:10]),
		"IDENTITY": "header", "SECRET": testenv.Secret, "LOG_FORMAT": "json",
		"LISTEN": "127.0.0.1:0", "INTERNAL_LISTEN": "127.0.0.1:0", "WORKER_LISTEN": "127.0.0.1:0",
	}
	return func(name string) string { return vars[name] }
}

func startAPI(t testing.TB, env func(string) string) *servetest.Program {
	t.Helper()
	return servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API(nil, env, stderr)
		if err != nil {
			return err
		}
		return API(ctx, cfg, cfg.Logger(stderr))
	})
}

func startWorker(t testing.TB, env func(string) string) *servetest.Program {
	t.Helper()
	return servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.Worker(nil, env, stderr)
		if err != nil {
			return err
		}
		return Worker(ctx, cfg, cfg.Logger(stderr))
	})
}

// saleAPI is an API with one open sale.
type saleAPI struct {
	*servetest.Program
	t testing.TB
}

func openShop(t testing.TB, api *servetest.Program, stock int) saleAPI {
	t.Helper()
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", api.URL("internal")+"/readyz", "") })
	servetest.OpenSale(t, api.URL("internal"), "concert", servetest.Sale("ticket", stock))
	return saleAPI{api, t}
}

func (s saleAPI) place(user string) servetest.Answer {
	return servetest.Once("POST", s.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "X-User-ID", user)
}

// bought waits until the user's order is accepted, and returns its id.
func (s saleAPI) bought(user string) (id string) {
	s.t.Helper()
	var o struct {
		OrderID string `json:"order_id"`
	}
	servetest.Until(s.t, http.StatusAccepted, func() servetest.Answer { return s.place(user) }).Into(s.t, &o)
	return o.OrderID
}

// confirmed waits until the order is confirmed.
func (s saleAPI) confirmed(id, user string) {
	s.t.Helper()
	servetest.Until(s.t, http.StatusOK, func() servetest.Answer {
		a := s.get(id+"?wait_ms=2000&while=accepted", user)
		if !strings.Contains(string(a.Body), `"confirmed"`) {
			a.Status = 0
		}
		return a
	})
}

func (s saleAPI) get(order, user string) servetest.Answer {
	return servetest.Once("GET", s.URL("public")+"/v1/orders/"+order, "", "X-User-ID", user)
}

func TestAPIAndWorkerTakeAnOrder(t *testing.T) {
	t.Parallel()
	env := environment(testenv.Redis(t), databases.Postgres(t))
	api, worker := startAPI(t, env), startWorker(t, env) // and both migrate
	s := openShop(t, api, 1000)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", worker.URL("worker")+"/readyz", "") })
	s.confirmed(s.bought("alice"), "alice")

	// The worker stops first: orders accepted meanwhile wait for the next one.
	if err := worker.Stop(); err != nil {
		t.Fatal(err)
	}
	id := s.bought("bob")
	if err := api.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*servetest.Program{api, worker} { // durations in the log are milliseconds
		if log := p.Output(); !strings.Contains(log, `"msg":"shutting down","within_ms":25000}`) {
			t.Errorf("no time for the shutdown in:\n%s", log)
		}
	}
	s.Program = startAPI(t, env)
	startWorker(t, env)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", s.URL("internal")+"/readyz", "") })
	s.confirmed(id, "bob")
}

func TestTheSchemaMustBeThere(t *testing.T) {
	t.Parallel()
	vars := environment(testenv.Redis(t), testenv.Postgres(t))
	p := startWorker(t, func(name string) string {
		if name == "MIGRATE" {
			return ""
		}
		return vars(name)
	})
	if err := p.Refused(); err == nil || !strings.Contains(err.Error(), "tidegate migrate") {
		t.Fatal(err)
	}
}

func TestAPoolThatIsTooSmall(t *testing.T) {
	t.Parallel()
	vars := environment(testenv.Redis(t), "postgres://postgres:hunter2@127.0.0.1:1/postgres?pool_max_conns=3")
	err := startWorker(t, vars).Refused()
	if err == nil || !strings.HasPrefix(err.Error(), "DATABASE_URL ") || !strings.Contains(err.Error(), "pool_max_conns must be at least 4") || strings.Contains(err.Error(), "hunter2") {
		t.Fatal(err)
	}
}

func TestServersAwayAtTheStart(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // the port of tcpmux, which is not in use
	for _, tt := range []struct{ redis, database, want string }{
		{"redis://:hunter2@" + nobody, databases.Postgres(t), "REDIS_URL"},
		{testenv.Redis(t), "postgres://postgres:hunter2@" + nobody + "/postgres", "DATABASE_URL"},
	} {
		cfg, err := config.Worker(nil, environment(tt.redis, tt.database), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var said strings.Builder
		err = overServers(t.Context(), cfg, cfg.Logger(&said), "worker", 2*time.Second, func(*Process, *shop.Service, *Redis, *sql.DB) error {
			t.Error("it was not waited for")
			return nil
		})
		if err == nil || !strings.HasPrefix(err.Error(), tt.want+": ") || !strings.Contains(err.Error(), nobody) || time.Since(start) > 10*time.Second {
			t.Errorf("after %v: %v, want %s", time.Since(start), err, tt.want)
		}
		if !strings.Contains(said.String(), "giving_up_in") || strings.Contains(said.String()+errorText(err), "hunter2") {
			t.Errorf("said %s and %v", &said, err)
		}
	}
}

// soon is longer than the 200 ms of a decision, for a busy machine.
const soon = 2 * time.Second

func TestRedisAwayLater(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	env := environment(redis.URL(), databases.Postgres(t))
	startWorker(t, env)
	s := openShop(t, startAPI(t, env), 1000)
	s.confirmed(s.bought("alice"), "alice")

	for i, away := range []struct {
		name      string
		go_, back func()
	}{
		{"frozen", redis.Stop, redis.Continue},
		{"restarted", redis.Kill, redis.Restart},
		{"forgotten", redis.Kill, redis.RestartEmpty},
	} {
		away.go_()
		user := fmt.Sprint("bob-", i)
		if a := s.place(user); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || a.Took > soon {
			t.Errorf("%s: after %v %v", away.name, a.Took, a)
		}
		if a := servetest.Once("GET", s.URL("public")+"/readyz", ""); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "redis") {
			t.Errorf("%s: readyz %v", away.name, a)
		}
		if a := servetest.Call("GET", s.URL("public")+"/livez", ""); a.Status != http.StatusOK {
			t.Errorf("%s: livez %v", away.name, a)
		}
		away.back()
		s.confirmed(s.bought(user), user)
	}
}

func TestPostgresAwayLater(t *testing.T) {
	t.Parallel()
	postgres := testenv.StartPostgres(t)
	env := environment(testenv.Redis(t), postgres.URL())
	startWorker(t, env)
	s := openShop(t, startAPI(t, env), 1000)
	before := s.bought("alice")
	s.confirmed(before, "alice")

	for i, away := range []struct {
		name      string
		go_, back func()
	}{
		{"frozen", postgres.Stop, postgres.Continue},
		{"restarted", postgres.Kill, postgres.Restart},
	} {
		// Redis still accepts orders, for 5 s: on a busy machine the outage is repeated for the next user.
		user, during := "", ""
		for round := 0; during == ""; round++ {
			user = fmt.Sprint("bob-", i, "-", round)
			away.go_()
			switch a := s.place(user); {
			case a.Status == http.StatusAccepted:
				var o struct {
					OrderID string `json:"order_id"`
				}
				a.Into(t, &o)
				during = o.OrderID
			case a.Status != http.StatusServiceUnavailable || round == 10:
				t.Fatalf("%s: %v", away.name, a)
			default:
				away.back()
				s.confirmed(s.bought(user), user)
			}
		}
		if a := s.get(before, "alice"); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || a.Took > soon {
			t.Errorf("%s: a committed order: after %v %v", away.name, a.Took, a)
		}
		a := servetest.Once("GET", s.URL("public")+"/readyz", "")
		if a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "database") {
			t.Errorf("%s: readyz %v", away.name, a)
		}
		if a := s.get(during, user); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || a.Took > soon {
			t.Errorf("%s: an order of meanwhile: after %v %v", away.name, a.Took, a)
		}
		away.back()
		s.confirmed(during, user)
		s.confirmed(before, "alice")
	}
}
