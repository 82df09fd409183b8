package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresServer is a Postgres for one test. It is not safe for concurrent use, except for SetClock.
type PostgresServer struct {
	t testing.TB
	s *server
}

// StartPostgres starts a Postgres that ends with the test. Settings ("fsync=on", "max_connections=20") override the defaults.
//
// By default fsync is off, for speed: a crash of the machine would then lose data, but a killed server does not, because the kernel has
// its writes. Turn it on where its cost or a real flush matters.
func StartPostgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	s, err := newPostgres("", settings...)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(s.remove)
	return &PostgresServer{t: t, s: s}
}

// StartPostgresWithClock starts a Postgres whose wall clock SetClock can shift.
func StartPostgresWithClock(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	s, err := newPostgres(faketime(t), settings...)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(s.remove)
	return &PostgresServer{t: t, s: s}
}

// SetClock shifts the server's wall clock by wrong, also in existing sessions. Its monotonic clock is not changed.
func (p *PostgresServer) SetClock(wrong time.Duration) {
	p.t.Helper()
	if err := setClock(p.s, wrong); err != nil {
		p.t.Errorf("testenv: set the clock of Postgres: %v", err)
	}
}

// URL returns the URL of an empty database; a restart keeps it.
func (p *PostgresServer) URL() string { return postgresURL(p.s) }

// Addr returns the server's host:port; a restart keeps it.
func (p *PostgresServer) Addr() string { return p.s.addr() }

// Kill kills the server and all its backends.
func (p *PostgresServer) Kill() { p.s.kill() }

// Stop freezes the server and its backends: statements hang, connections stay open.
func (p *PostgresServer) Stop() { p.s.stop() }

// Continue ends a Stop.
func (p *PostgresServer) Continue() { p.s.cont() }

// Restart kills the server if it is running and starts it again with all committed data.
func (p *PostgresServer) Restart() {
	p.t.Helper()
	if err := p.s.restart(); err != nil {
		p.t.Fatalf("testenv: restart: %v", err)
	}
}

// Snapshot kills the server, keeps a copy of its data, and starts it again.
func (p *PostgresServer) Snapshot() (data string) {
	p.t.Helper()
	p.s.kill()
	data = filepath.Join(p.s.dir, "snapshot")
	p.copyData(filepath.Join(p.s.dir, "data"), data)
	p.Restart()
	return data
}

// RestartFrom kills the server and starts it with the data of a snapshot, like a promoted standby that was behind.
func (p *PostgresServer) RestartFrom(data string) {
	p.t.Helper()
	p.s.kill()
	p.copyData(data, filepath.Join(p.s.dir, "data"))
	p.Restart()
}

// Follow streams the server's WAL until the test ends, as an asynchronous standby does. It returns when the server has registered it.
func (p *PostgresServer) Follow() {
	p.t.Helper()
	bin, err := postgresBin()
	if err != nil {
		p.t.Fatalf("testenv: %v", err)
	}
	host, port, _ := net.SplitHostPort(p.Addr())
	cmd := exec.CommandContext(p.t.Context(), filepath.Join(bin, "pg_receivewal"), "-D", p.t.TempDir(), "-h", host, "-p", port, "-U",
		"postgres")
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("testenv: follow: %v", err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	conn, err := pgx.Connect(p.t.Context(), p.URL())
	if err != nil {
		p.t.Fatalf("testenv: follow: %v", err)
	}
	defer conn.Close(p.t.Context())
	deadline := time.Now().Add(startTimeout)
	for following := false; !following; {
		if err := conn.QueryRow(p.t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_replication)`).Scan(&following); err != nil ||
			time.Now().After(deadline) {
			p.t.Fatalf("testenv: follow: no replica connected: %v", err)
		}
	}
}

func (p *PostgresServer) copyData(from, to string) {
	p.t.Helper()
	if err := os.RemoveAll(to); err != nil {
		p.t.Fatalf("testenv: %v", err)
	}
	if err := copyFolder(p.t.Context(), from, to); err != nil {
		p.t.Fatalf("testenv: %v", err)
	}
}

func postgresURL(s *server) string {
	return "postgres://postgres@" + s.addr() + "/postgres?sslmode=disable"
}

// newPostgres starts a server, with libfaketime if faketime is not empty.
func newPostgres(faketime string, settings ...string) (*server, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{
		// Not SIGKILL, which would leave the server's shared memory behind.
		Pdeathsig: syscall.SIGQUIT,
		Setpgid:   true,
	}
	if attr.Credential, err = unprivileged(); err != nil {
		return nil, err
	}
	s := &server{
		name: "postgres",
		command: func(s *server) *exec.Cmd {
			args := []string{"-D", filepath.Join(s.dir, "data")}
			for _, setting := range append([]string{
				"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=",
				"max_connections=200", "fsync=off", "full_page_writes=off", "timezone=UTC",
			}, settings...) {
				args = append(args, "-c", setting)
			}
			//nolint:noctx // it lives until its test or the process ends
			cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
			cmd.Dir, cmd.SysProcAttr = s.dir, attr
			if faketime != "" {
				cmd.Env = clockEnv(s, faketime)
			}
			return cmd
		},
		ready: postgresReady,
		reset: func(ctx context.Context, s *server) error {
			if attr.Credential != nil {
				if err := os.Chown(s.dir, int(attr.Credential.Uid), int(attr.Credential.Gid)); err != nil {
					return err
				}
			}
			if err := initialize(ctx, bin, attr.Credential); err != nil {
				return err
			}
			if err := copyFolder(ctx, initialized.dir, filepath.Join(s.dir, "data")); err != nil {
				return err
			}
			if faketime == "" {
				return nil
			}
			return setClock(s, 0)
		},
	}
	return s, s.create()
}

// initialized is a new data directory for copying: initdb takes a second of CPU, a copy little.
var initialized struct {
	sync.Mutex
	dir string
}

// initialize creates it, unless it exists. It can be missing because an earlier Lend removed it.
func initialize(ctx context.Context, bin string, user *syscall.Credential) error {
	initialized.Lock()
	defer initialized.Unlock()
	if _, err := os.Stat(initialized.dir); err == nil {
		return nil
	}
	parent, err := tempDir("initdb")
	if err != nil {
		return err
	}
	if user != nil {
		if err := os.Chown(parent, int(user.Uid), int(user.Gid)); err != nil {
			return err
		}
	}
	dir := filepath.Join(parent, "data")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", dir,
		"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	cmd.Dir = parent
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	initialized.dir = dir
	return nil
}

func copyFolder(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the data of Postgres: %w: %s", err, out)
	}
	return nil
}

// postgresReady checks the data directory, since another process may have taken the port first.
func postgresReady(ctx context.Context, s *server) error {
	conn, err := pgx.Connect(ctx, postgresURL(s))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var dir string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return err
	}
	if dir != filepath.Join(s.dir, "data") {
		return fmt.Errorf("%s is another server's", s.addr())
	}
	return nil
}

// postgresBin returns the directory of the server's programs: TEST_POSTGRES_BIN, else that of PATH, else Debian's, which has one per
// version.
func postgresBin() (string, error) {
	if bin := os.Getenv("TEST_POSTGRES_BIN"); bin != "" {
		return bin, nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	newest, bin := 0, ""
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for _, dir := range dirs {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if _, missing := os.Stat(filepath.Join(dir, "initdb")); err == nil && missing == nil && version > newest {
			newest, bin = version, dir
		}
	}
	if bin == "" {
		return "", errors.New("postgres and initdb are not installed; make setup installs them")
	}
	return bin, nil
}

// unprivileged returns a user for the server, which refuses to run as root; nil if this process is not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errU, errG); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("postgres cannot run as root, and this machine has no unprivileged user for it")
}
