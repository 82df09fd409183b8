// Package deploy_test checks what operators are given, docs/metrics.md, the dashboard and the alerts, against the real programs, and by a real Prometheus.
package deploy_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(4) // most of the time Prometheus waits for its next scrape
	os.Exit(testenv.Main(m))
}

const (
	operator = "operator-operator"
	scraper  = "scraper-scraper-scraper"
)

// rulesFile has something of everything that is measured.
const rulesFile = `
version: 1
rules:
  - {name: orders, match: {route: /v1/sales/*/orders}, subject: user, limit: 100, window: 1h}
  - {name: calls, subject: caller, limit: 1, window: 1h, match: {route: /call}}
  - {name: later, subject: caller, limit: 1, window: 1h, shadow: true}
semaphores: {report: {limit: 2}, build: {limit: 1}}
login:
  - {count: name, limit: 1, window: 1m, then: challenge, for: 1m, shadow: true}
bans: {run: [/bin/true]}
`

// world is one API and one worker, which have done something of everything.
type world struct {
	api, worker *servetest.Program
	redis       *testenv.RedisServer
}

func start(t *testing.T) world {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(rulesFile), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := testenv.StartRedis(t)
	vars := map[string]string{
		"REDIS_URL": redis.URL(), "DATABASE_URL": testenv.Postgres(t), "MIGRATE": "true", "NAMESPACE": "test-" + strings.ToLower(rand.Text()[:10]),
		"IDENTITY": "header", "SECRET": testenv.Secret, "LOG_FORMAT": "json", "RULES_FILE": rules,
		"INTERNAL_TOKEN": operator, "METRICS_TOKEN": scraper,
		"LISTEN": "127.0.0.1:0", "INTERNAL_LISTEN": "127.0.0.1:0", "WORKER_LISTEN": "127.0.0.1:0",
	}
	env := func(name string) string { return vars[name] }
	w := world{
		redis: redis,
		api: servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
			cfg, err := config.API(nil, env, stderr)
			if err != nil {
				return err
			}
			return serve.API(ctx, cfg, cfg.Logger(stderr))
		}),
		worker: servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
			cfg, err := config.Worker(nil, env, stderr)
			if err != nil {
				return err
			}
			return serve.Worker(ctx, cfg, cfg.Logger(stderr))
		}),
	}
	w.worker.Addr("worker")
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", w.api.URL("internal")+"/readyz", "") })

	servetest.OpenSale(t, w.api.URL("internal"), "concert", servetest.Sale("ticket", 1000), "X-Tidegate-Token", operator)
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return w.order("ann") })
	for i := range 20 {
		w.order(fmt.Sprintf("user-%d", i))
	}
	for range 2 {
		w.operate(t, "POST", "/v1/admit", `{"subject":{"ip":"203.0.113.7"},"attributes":{"route":"/call"}}`)
	}
	var permit struct {
		ID string `json:"permit_id"`
	}
	w.operate(t, "POST", "/v1/semaphores/build/permits", `{"holder":"a"}`).Into(t, &permit)
	w.operate(t, "DELETE", "/v1/semaphores/build/permits/"+permit.ID, "") // a lost one raises an alert
	w.operate(t, "PUT", "/v1/rooms/door", `{"mode":"fifo","starts_at":"2026-01-01T00:00:00Z"}`)
	var attempt struct {
		ID string `json:"attempt_id"`
	}
	for range 2 {
		w.operate(t, "POST", "/v1/login/attempts", `{"name":"ann","ip":"203.0.113.7"}`).Into(t, &attempt)
		w.operate(t, "POST", "/v1/login/attempts/"+attempt.ID+"/outcome", `{"result":"failure"}`)
	}
	servetest.Once("GET", w.api.URL("public")+"/v1/captcha/challenge?purpose=order", "")
	w.operate(t, "GET", "/v1/sales/concert/verify", "")
	return w
}

func (w world) operate(t *testing.T, method, path, body string) servetest.Answer {
	t.Helper()
	a := servetest.Call(method, w.api.URL("internal")+path, body, "Authorization", "Bearer "+operator)
	if a.Status >= 300 {
		t.Fatalf("%s %s: %v", method, path, a)
	}
	return a
}

func (w world) order(user string) servetest.Answer {
	return servetest.Once("POST", w.api.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "X-User-ID", user)
}
