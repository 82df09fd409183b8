package testenv

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

// StartStandby starts a hot standby of a Postgres that ends with the test: it answers reads. It has what primary has committed; delay
// ("2s"), if it is not empty, is how long it applies commits later.
func StartStandby(t testing.TB, primary *PostgresServer, delay string) *PostgresServer {
	t.Helper()
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatalf("testenv: standby: %v", err)
		}
	}
	bin, err := postgresBin()
	fail(err)
	settings := []string{"primary_conninfo=host=127.0.0.1 port=" + fmt.Sprint(primary.s.port) + " user=postgres"}
	if delay != "" {
		settings = append(settings, "recovery_min_apply_delay="+delay)
	}
	s, err := newPostgres("", settings...)
	fail(err)
	t.Cleanup(s.remove)
	s.kill()
	data := filepath.Join(s.dir, "data")
	backup := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_basebackup"), "-D", data+".backup", "-h", "127.0.0.1", "-p",
		fmt.Sprint(primary.s.port), "-U", "postgres", "--checkpoint=fast", "--write-recovery-conf")
	backup.SysProcAttr = s.command(s).SysProcAttr
	if out, err := backup.CombinedOutput(); err != nil {
		t.Fatalf("testenv: standby: %v: %s", err, out)
	}
	p := &PostgresServer{t: t, s: s}
	p.copyData(data+".backup", data)
	p.Restart()
	conn, err := pgx.Connect(t.Context(), p.URL())
	fail(err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var standby bool
	fail(conn.QueryRow(t.Context(), `SELECT pg_is_in_recovery()`).Scan(&standby))
	if !standby {
		t.Fatal("testenv: standby: it takes writes")
	}
	return p
}
