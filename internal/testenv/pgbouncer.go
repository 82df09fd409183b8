package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PgBouncer is a pooler in front of a Postgres for one test. It is not safe for concurrent use.
type PgBouncer struct {
	t testing.TB
	s *server
	// config are lines of its section [pgbouncer] besides those that it needs to run.
	config string
}

// StartPgBouncer starts a PgBouncer that ends with the test. mode is its pool_mode; config are more lines, such as
// "max_db_connections = 20".
func StartPgBouncer(t testing.TB, postgres *PostgresServer, mode string, config ...string) *PgBouncer {
	t.Helper()
	user, err := unprivileged() // it refuses to run as root
	if err != nil {
		t.Fatalf("testenv: pgbouncer: %v", err)
	}
	p := &PgBouncer{t: t, config: strings.Join(append(config, "pool_mode = "+mode), "\n")}
	p.s = &server{
		name: "pgbouncer",
		reset: func(_ context.Context, s *server) error {
			if user == nil {
				return nil
			}
			return os.Chown(s.dir, int(user.Uid), int(user.Gid))
		},
		command: func(s *server) *exec.Cmd {
			if err := p.configure(s, postgres); err != nil {
				t.Errorf("testenv: pgbouncer: %v", err)
			}
			//nolint:noctx // it lives until its test or the process ends
			cmd := exec.Command("pgbouncer", filepath.Join(s.dir, "pgbouncer.ini"))
			cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: user}
			return cmd
		},
		ready: func(ctx context.Context, s *server) error {
			conn, err := pgx.Connect(ctx, postgresURL(s)+"&default_query_exec_mode=simple_protocol")
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
	}
	if err := p.s.create(); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(p.s.remove)
	return p
}

// configure lets user postgres in.
func (p *PgBouncer) configure(s *server, postgres *PostgresServer) error {
	host, port, err := net.SplitHostPort(postgres.Addr())
	if err != nil {
		return err
	}
	users := filepath.Join(s.dir, "users")
	for file, text := range map[string]string{
		users: `"postgres" ""`,
		filepath.Join(s.dir, "pgbouncer.ini"): fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr = "+
			"127.0.0.1\nlisten_port = %d\n"+
			"unix_socket_dir =\nauth_type = trust\nauth_file = %s\n%s\n", host, port, s.port, users, p.config),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Chmod(file, 0o644); err != nil { // it may run as another user
			return err
		}
	}
	return nil
}

// URL is that of the Postgres, through the pooler.
func (p *PgBouncer) URL() string { return postgresURL(p.s) }

// Kill kills the pooler, and with it all connections.
func (p *PgBouncer) Kill() { p.s.kill() }

// Restart kills the pooler if it is running and starts it again.
func (p *PgBouncer) Restart() {
	p.t.Helper()
	if err := p.s.restart(); err != nil {
		p.t.Fatalf("testenv: restart: %v", err)
	}
}
