package livepage_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(4) // pages that wait for the next frame
	os.Exit(testenv.Main(m))
}

// rules let a crowd in, and know who clicks too often.
const rules = `version: 1
rules:
  - {name: orders, match: {route: "/v1/sales/*/orders", method: POST}, subject: [caller], limit: 20, window: 1m}
  - name: abuse
    match: {route: "/v1/sales/*/orders", method: POST}
    subject: [user]
    limit: 25
    window: 1m
    count_rejected: true
    on_exceed: {action: ban, after: 5, within: 1m, for: 10m}
  - {name: visits, match: {route: "/shop"}, subject: [ip], limit: 3, window: 1h}
  - {name: twice, match: {route: "/v1/sales/*/orders", method: POST}, subject: [user], limit: 1, window: 1m, shadow: true}
semaphores: {report: {limit: 1, lease: 60s}}
`

// An installation is an API and a worker over Redis and Postgres.
type installation struct {
	t                testing.TB
	api              *servetest.Program
	public, internal string
	env              map[string]string
	db               *pgx.Conn
}

// install starts one, with further variables: name, value, name, value …
func install(t testing.TB, more ...string) *installation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	at := &installation{t: t, env: map[string]string{
		"REDIS_URL": testenv.Redis(t), "DATABASE_URL": testenv.Postgres(t), "MIGRATE": "true", "NAMESPACE": "test-" + strings.ToLower(rand.Text()[:10]),
		"IDENTITY": "header", "SECRET": testenv.Secret, "LOG_FORMAT": "json", "RULES_FILE": file, "WORKER_LISTEN": "127.0.0.1:0",
		// The same ones after a restart, for who is there then looks for them.
		"LISTEN": testenv.FreeAddr(), "INTERNAL_LISTEN": testenv.FreeAddr(),
	}}
	for i := 0; i < len(more); i += 2 {
		at.env[more[i]] = more[i+1]
	}
	getenv := func(name string) string { return at.env[name] }
	at.startAPI()
	at.public, at.internal = at.api.URL("public"), at.api.URL("internal")
	servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.Worker(nil, getenv, stderr)
		if err != nil {
			return err
		}
		return serve.Worker(ctx, cfg, cfg.Logger(stderr))
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", at.internal+"/readyz", "") })
	db, err := pgx.Connect(t.Context(), at.env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	at.db = db
	return at
}

func (at *installation) startAPI() {
	at.api = servetest.Start(at.t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API(nil, func(name string) string { return at.env[name] }, stderr)
		if err != nil {
			return err
		}
		return serve.API(ctx, cfg, cfg.Logger(stderr))
	})
}

// must calls the internal listener, which has to answer with a status.
func (at *installation) must(status int, method, path, body string) servetest.Answer {
	at.t.Helper()
	a := servetest.Call(method, at.internal+path, body)
	if a.Status != status {
		at.t.Fatalf("%s %s: %v", method, path, a)
	}
	return a
}

func (at *installation) openSale(sale, item string, stock int) {
	at.t.Helper()
	servetest.OpenSale(at.t, at.internal, sale, servetest.Sale(item, stock))
	servetest.AwaitOpen(at.t, at.public, sale)
}

func (at *installation) order(sale, item, user string) servetest.Answer {
	return servetest.Call("POST", at.public+"/v1/sales/"+sale+"/orders", `{"item":"`+item+`"}`, "X-User-ID", user, "Idempotency-Key", rand.Text())
}

// number is what the database answers to a query.
func (at *installation) number(query string, args ...any) (n int) {
	at.t.Helper()
	if err := at.db.QueryRow(at.t.Context(), query, args...).Scan(&n); err != nil {
		at.t.Fatal(err)
	}
	return n
}

func (at *installation) exec(statement string) {
	at.t.Helper()
	if _, err := at.db.Exec(at.t.Context(), statement); err != nil {
		at.t.Fatal(err)
	}
}

// audited checks that the newest event of the audit log is such.
func (at *installation) audited(action, target string) {
	at.t.Helper()
	var log struct {
		Items []struct{ Actor, Action, Target, Outcome string }
	}
	at.must(http.StatusOK, "GET", "/v1/audit?limit=1", "").Into(at.t, &log)
	if len(log.Items) != 1 || log.Items[0].Actor != "local" || log.Items[0].Action != action || log.Items[0].Outcome != "done" || !strings.HasPrefix(log.Items[0].Target, target) {
		at.t.Errorf("the audit log begins with %+v, want %s of %s", log.Items, action, target)
	}
}
