package pgclient_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/internal/pgclient"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// open returns a pool, and its log.
func open(t *testing.T, url string) (*pgxpool.Pool, *bytes.Buffer) {
	t.Helper()
	log := new(bytes.Buffer)
	pool, err := pgclient.Open(t.Context(), url, "test", pgclient.DefaultConns, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, log
}

func exec(t *testing.T, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAServerThatNoLongerTakesWrites is left at the first write that it refuses, and used again when it takes them.
func TestAServerThatNoLongerTakesWrites(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	pool, _ := open(t, server.URL())
	exec(t, pool, `CREATE TABLE t (n int)`)
	readOnly := func(value string) {
		t.Helper()
		admin, err := pgxpool.New(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		exec(t, admin, `ALTER SYSTEM SET default_transaction_read_only = `+value, `SELECT pg_reload_conf()`)
	}
	write := func() error { _, err := pool.Exec(t.Context(), `INSERT INTO t VALUES (1)`); return err }
	until := func(what string, ok func(error) bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !ok(write()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, write())
			}
		}
	}
	readOnly("on")
	until("the server refuses to write", func(err error) bool {
		refused := (*pgconn.PgError)(nil)
		return errors.As(err, &refused) && refused.Code == "25006"
	})
	if err := write(); !errors.Is(err, pgconn.ErrReadOnlyConnection) {
		t.Errorf("afterwards: %v, want ErrReadOnlyConnection: not even a connection", err)
	}
	if err := pool.Ping(t.Context()); !errors.Is(err, pgconn.ErrReadOnlyConnection) {
		t.Errorf("reading: %v, want ErrReadOnlyConnection", err)
	}
	readOnly("off")
	until("the server takes writes again", func(err error) bool { return err == nil })
}

// TestWhatAPoolerDoesNotSet: what the role has instead is checked.
func TestWhatAPoolerDoesNotSet(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	admin, _ := open(t, server.URL())
	for name, config := range map[string]string{
		"refused": "", "ignored": "ignore_startup_parameters = statement_timeout,idle_in_transaction_session_timeout,synchronous_commit,default_transaction_isolation,lock_timeout",
	} {
		pooler := testenv.StartPgBouncer(t, server, "transaction", config)
		fresh := func() { // the pooler's connections have the settings of the role from their start
			t.Helper()
			pooler.Restart()
		}
		pool, log := open(t, pooler.URL())
		exec(t, pool, `SELECT 1`)
		for _, advice := range []string{`ALTER ROLE \"postgres\" SET statement_timeout = '30s'`, `SET idle_in_transaction_session_timeout = '5s'`} {
			if !strings.Contains(log.String(), advice) {
				t.Errorf("%s: the log does not advise %q: %s", name, advice, log)
			}
		}
		exec(t, admin, `ALTER ROLE postgres SET synchronous_commit = off`)
		fresh()
		pool, _ = open(t, pooler.URL())
		if err := pool.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), `ALTER ROLE "postgres" SET synchronous_commit = 'on'`) {
			t.Errorf("%s: synchronous_commit is off: %v", name, err)
		}
		exec(t, admin, `ALTER ROLE postgres RESET synchronous_commit`, `ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'`)
		fresh()
		pool, _ = open(t, pooler.URL())
		if err := pool.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), `ALTER ROLE "postgres" SET default_transaction_isolation = 'read committed'`) {
			t.Errorf("%s: the isolation level is repeatable read: %v", name, err)
		}
		exec(t, admin, `ALTER ROLE postgres RESET default_transaction_isolation`, `ALTER ROLE postgres SET statement_timeout = '30s'`, `ALTER ROLE postgres SET idle_in_transaction_session_timeout = '5s'`)
		fresh()
		pool, log = open(t, pooler.URL())
		if exec(t, pool, `SELECT 1`); log.Len() > 0 {
			t.Errorf("%s: all is set, and the log says %s", name, log)
		}
		exec(t, admin, `ALTER ROLE postgres RESET ALL`)
	}
}
