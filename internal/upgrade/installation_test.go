//go:build upgrade

package upgrade

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/rehearse"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/migrations"
)

// installation is two APIs and two workers.
type installation struct {
	t                testing.TB
	bins             map[version]string
	redis            *redis.Client
	database         string
	token            string
	apis, workers    []*process
	public, internal []string
}

// install starts the scenario's programs. The schema is that of the newest of them.
func (s *scenario) install(t testing.TB, bins map[version]string) *installation {
	t.Helper()
	server := testenv.StartRedis(t)
	in := &installation{
		t: t, bins: bins, redis: redis.NewClient(&redis.Options{Addr: server.Addr()}), database: testenv.Postgres(t), token: rand.Text(),
	}
	t.Cleanup(func() { in.redis.Close() })
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	must(t, os.WriteFile(rules, []byte(rehearse.OpenRules), 0o600))
	common := []string{
		"REDIS_URL=" + server.URL(), "DATABASE_URL=" + in.database + "&pool_max_conns=8", "RULES_FILE=" + rules, "MIGRATE=true",
		"IDENTITY=header", "SECRET=" + rand.Text() + rand.Text(), "INTERNAL_TOKEN=" + in.token,
	}
	if max(s.apis, s.workers) == newer {
		in.migrate()
	}
	for range 2 {
		worker := newWorker(common)
		worker.start(t, bins[s.workers])
		in.workers = append(in.workers, worker)
	}
	for range 2 {
		api, public, internal := newAPI(common)
		api.start(t, bins[s.apis])
		in.apis, in.public, in.internal = append(in.apis, api), append(in.public, public), append(in.internal, internal)
	}
	return in
}

func (in *installation) migrate() {
	in.t.Helper()
	db, err := sql.Open("pgx", in.database)
	must(in.t, err)
	defer db.Close()
	must(in.t, migrations.Postgres(in.t.Context(), db))
}

func (in *installation) move(m move) {
	in.t.Helper()
	began := time.Now()
	switch m.what {
	case "schema":
		in.migrate()
	case "redis":
		must(in.t, in.redis.FlushAll(in.t.Context()).Err())
	case "workers":
		for _, p := range in.workers {
			p.replace(in.t, in.bins[m.to])
		}
	case "apis":
		for _, p := range in.apis {
			p.replace(in.t, in.bins[m.to])
		}
	}
	in.t.Logf("%s: %s, in %.1f s", m.what, m.to, time.Since(began).Seconds())
}

// settle waits until no order is uncommitted.
func (in *installation) settle(ctx context.Context) {
	in.t.Helper()
	began := time.Now()
	for {
		keys, err := in.redis.Keys(ctx, "*:outbox").Result()
		must(in.t, err)
		left := int64(0)
		for _, key := range keys {
			left += in.redis.ZCount(ctx, key, "-inf", "(+inf").Val() // without the sentinel
		}
		if left == 0 {
			in.t.Logf("%.1f s after the wave no order is uncommitted", time.Since(began).Seconds())
			return
		}
		if !periodic.Pause(ctx, 100*time.Millisecond) || time.Since(began) > time.Minute {
			in.t.Fatalf("%d orders are not committed a minute after the wave", left)
		}
	}
}

// verify asks every API, of whichever version.
func (in *installation) verify() {
	in.t.Helper()
	for _, api := range in.internal {
		a := servetest.Call("GET", api+"/v1/sales/"+sale+"/verify", "", "Authorization", "Bearer "+in.token)
		var v judge.Verification
		if a.Into(in.t, &v); a.Status != 200 || !v.OK {
			in.t.Errorf("verify of %s: %v", api, a)
		}
	}
}

// noTasksLeft reads the queues of both versions from Redis: an API only reports those that it knows.
func (in *installation) noTasksLeft(ctx context.Context) {
	in.t.Helper()
	for _, state := range []string{"pending", "active", "scheduled", "retry", "archived"} {
		keys, err := in.redis.Keys(ctx, "asynq:{*}:"+state).Result()
		must(in.t, err)
		for _, key := range keys {
			in.t.Errorf("tasks are left in %s", key)
		}
	}
}

// logged prints warnings and errors of all processes, and fails for errors.
func (in *installation) logged() {
	in.t.Helper()
	lines := make(map[string]int)
	for _, p := range slices.Concat(in.apis, in.workers) {
		for line := range strings.Lines(p.output + p.program.Output()) {
			var e struct{ Level, Msg string }
			if json.Unmarshal([]byte(line), &e) == nil && (e.Level == "WARN" || e.Level == "ERROR") {
				lines[p.name+" "+e.Level+" "+e.Msg]++
			}
			if e.Level == "ERROR" {
				in.t.Errorf("a process logged an error: %s", line)
			}
		}
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		in.t.Logf("%d× %s", lines[line], line)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
