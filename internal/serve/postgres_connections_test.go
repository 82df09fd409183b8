package serve

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// sells places n orders, eight at a time, and waits until each is confirmed.
func (s saleAPI) sells(n int, prefix string) {
	s.t.Helper()
	var buyers sync.WaitGroup
	for i := range 8 {
		buyers.Go(func() {
			for j := i; j < n; j += 8 {
				user := fmt.Sprint(prefix, j)
				s.confirmed(s.bought(user), user)
			}
		})
	}
	buyers.Wait()
}

func (s saleAPI) verified() {
	s.t.Helper()
	servetest.Until(s.t, http.StatusOK, func() servetest.Answer {
		a := servetest.Once("GET", s.URL("internal")+"/v1/sales/concert/verify", "")
		if !strings.Contains(string(a.Body), `"ok":true`) {
			a.Status = 0
		}
		return a
	})
}

// TestPgBouncer: a pooler as its package configures it, which refuses the parameters of a session, and with the parameters ignored.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	const ignored = "ignore_startup_parameters = statement_timeout,idle_in_transaction_session_timeout,synchronous_commit,default_transaction_isolation,lock_timeout"
	for name, c := range map[string]struct {
		mode, config, url string
		role              string // statements
	}{
		"session":                            {mode: "session"},
		"transaction":                        {mode: "transaction"},
		"transaction, parameters ignored":    {mode: "transaction", config: ignored},
		"transaction, no prepared statement": {mode: "transaction", config: ignored, url: "&default_query_exec_mode=cache_describe"},
		// Nothing shows that there is a pooler, until it loses a prepared statement.
		"transaction, parameters of the role": {
			mode: "transaction", config: ignored,
			role: `ALTER ROLE postgres SET statement_timeout = '30s'; ALTER ROLE postgres SET idle_in_transaction_session_timeout = '5s'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			postgres := testenv.StartPostgres(t)
			if admin, err := pgx.Connect(t.Context(), postgres.URL()); err != nil {
				t.Fatal(err)
			} else if _, err := admin.Exec(t.Context(), c.role); err != nil {
				t.Fatal(err)
			} else if err := admin.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Statements of one client reach many connections of the server.
			pooler := testenv.StartPgBouncer(t, postgres, c.mode, c.config, "default_pool_size = 60", "server_round_robin = 1")
			env := environment(testenv.Redis(t), pooler.URL()+c.url)
			workers := []*servetest.Program{startWorker(t, env), startWorker(t, env)}
			s := openShop(t, startAPI(t, env), 1000)
			s.sells(100, "first-")
			for i := range 3 { // a storm: every client connects again
				pooler.Kill()
				pooler.Restart()
				s.sells(20, fmt.Sprint("after-", i, "-"))
			}
			s.verified()
			if logs := s.Output() + workers[0].Output() + workers[1].Output(); c.role != "" && !strings.Contains(logs, "loses prepared statements") {
				t.Error("no prepared statement was lost")
			}
		})
	}
}

// TestWaysToSendStatements: each parameter of DATABASE_URL that changes how statements are sent works or is refused.
func TestWaysToSendStatements(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{
		"default_query_exec_mode=cache_statement", "default_query_exec_mode=cache_describe", "default_query_exec_mode=describe_exec",
		"statement_cache_capacity=0", "description_cache_capacity=0", "statement_cache_capacity=0&description_cache_capacity=0",
		"statement_cache_capacity=1", "default_query_exec_mode=cache_describe&description_cache_capacity=0", "target_session_attrs=any", "target_session_attrs=primary",
	} {
		t.Run(parameters, func(t *testing.T) {
			t.Parallel()
			env := environment(testenv.Redis(t), databases.Postgres(t)+"&"+parameters)
			startWorker(t, env)
			s := openShop(t, startAPI(t, env), 1000)
			s.sells(20, "buyer-")
			s.verified()
		})
	}
	for _, parameters := range []string{
		"default_query_exec_mode=exec", "default_query_exec_mode=simple_protocol", "target_session_attrs=standby", "target_session_attrs=prefer-standby", "target_session_attrs=read-only", "default_transaction_isolation=serializable",
	} {
		name, _, _ := strings.Cut(parameters, "=")
		if err := startWorker(t, environment(testenv.Redis(t), databases.Postgres(t)+"&"+parameters)).Refused(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", parameters, err)
		}
	}
}

// TestAStandbyBehindTheAddress: the address of Postgres leads to a standby for a while, as after a failover that is undone.
func TestAStandbyBehindTheAddress(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]string{"up to date": "", "behind": "1h"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := testenv.StartPostgres(t)
			address := testenv.NewDistance(t, primary.Addr(), 0)
			env := environment(testenv.Redis(t), strings.Replace(primary.URL(), primary.Addr(), address.Addr(), 1))
			worker := startWorker(t, env)
			s := openShop(t, startAPI(t, env), 1000)
			standby := testenv.StartStandby(t, primary, delay)
			s.sells(20, "before-")
			address.MoveTo(standby.Addr())
			primary.Kill() // all connections end, and new ones reach the standby
			primary.Restart()
			for _, of := range []string{s.URL("internal"), worker.URL("worker")} { // although the standby answers
				servetest.Until(t, http.StatusServiceUnavailable, func() servetest.Answer { return servetest.Once("GET", of+"/readyz", "") })
			}
			address.MoveTo(primary.Addr())
			s.sells(20, "after-")
			s.verified()
			for _, log := range []string{s.Output(), worker.Output()} {
				if strings.Contains(log, "25006") || strings.Contains(log, "went back in time") {
					t.Errorf("the standby was used:\n%s", log)
				}
			}
		})
	}
}

// TestAWorkerThatCannotCommit: what is accepted waits for it, and after a while nothing more is accepted.
func TestAWorkerThatCannotCommit(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	env := environment(testenv.Redis(t), server.URL())
	s := openShop(t, startAPI(t, env), 1000)
	admin, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	exec := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE ROLE clerk LOGIN; GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk; GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO clerk;
		GRANT INSERT ON processes, installation, dead_letters TO clerk`)
	worker := startWorker(t, with(with(env, "DATABASE_URL", strings.Replace(server.URL(), "postgres@", "clerk@", 1)), "MIGRATE", "false"))
	early := s.bought("early")
	ready := func(of string) func() servetest.Answer {
		return func() servetest.Answer { return servetest.Once("GET", of+"/readyz", "") }
	}
	for _, of := range []string{worker.URL("worker"), s.URL("internal")} {
		servetest.Until(t, http.StatusServiceUnavailable, func() servetest.Answer {
			a := ready(of)()
			if !strings.Contains(string(a.Body), "commits: ") {
				a.Status = 0
			}
			return a
		})
	}
	if a := s.place("late"); a.Status != http.StatusServiceUnavailable {
		t.Errorf("an order that no worker can commit: %v", a)
	}
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return s.place("early") }) // the repeat of an order that was accepted
	exec(`GRANT INSERT ON ALL TABLES IN SCHEMA public TO clerk`)
	servetest.Until(t, http.StatusOK, ready(worker.URL("worker")))
	servetest.Until(t, http.StatusOK, ready(s.URL("internal")))
	s.confirmed(early, "early")
	s.confirmed(s.bought("late"), "late")
	s.verified()
}

// TestTheLimitsOfConnectionsAreLogged, and those that are too low.
func TestTheLimitsOfConnectionsAreLogged(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	env := environment(testenv.Redis(t), server.URL())
	startWorker(t, env).Addr("worker") // and migrates
	admin, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	if _, err := admin.Exec(t.Context(), `CREATE ROLE clerk LOGIN CONNECTION LIMIT 6; GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO clerk`); err != nil {
		t.Fatal(err)
	}
	limited := with(with(env, "DATABASE_URL", strings.Replace(server.URL(), "postgres@", "clerk@", 1)), "MIGRATE", "false")
	for _, c := range []struct{ conns, want string }{
		{"", `"msg":"Postgres may refuse connections of this process: raise its limits, or lower DATABASE_MAX_CONNS","most":17,"allowed_by_server":197,"allowed_for_role":6`},
		{"5", `"msg":"connections to Postgres","most":6,"allowed_by_server":197,"allowed_for_role":6`},
	} {
		worker := startWorker(t, with(limited, "DATABASE_MAX_CONNS", c.conns))
		worker.Addr("worker")
		if log := worker.Output(); !strings.Contains(log, c.want) {
			t.Errorf("the log does not contain %s:\n%s", c.want, log)
		}
		if err := worker.Stop(); err != nil {
			t.Error(err)
		}
	}
	if err := startWorker(t, with(limited, "DATABASE_MAX_CONNS", "3")).Refused(); err == nil || !strings.Contains(err.Error(), "DATABASE_MAX_CONNS") {
		t.Errorf("3 connections: %v", err)
	}
}
