package testenv

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	if os.Getenv("TESTENV_SERVE") != "" {
		serve()
	}
	os.Exit(Main(m))
}

// serve is the child of TestServersDieWithTheProcess.
func serve() {
	cache, err := newRedis("")
	if err != nil {
		panic(err)
	}
	database, err := newPostgres("")
	if err != nil {
		panic(err)
	}
	for _, s := range []*server{cache, database} {
		_, _ = os.Stdout.WriteString("server " + strconv.Itoa(s.cmd.Process.Pid) + "\n")
	}
	select {}
}

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opt.MaxRetries, opt.DialerRetries, opt.ReadTimeout = -1, 1, 100*time.Millisecond
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestSharedRedis(t *testing.T) {
	url := Redis(t)
	if again := Redis(t); again != url {
		t.Fatalf("second call: %s, want the same server %s", again, url)
	}
	config, err := client(t, url).ConfigGet(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"appendonly": "yes", "maxmemory-policy": "noeviction", "save": ""} {
		if config[name] != want {
			t.Errorf("%s = %q, want %q", name, config[name], want)
		}
	}
}

func TestRedisFaults(t *testing.T) {
	s := StartRedis(t, "--appendfsync", "always")
	url := s.URL()
	c := client(t, url)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := client(t, url).Ping(ctx).Err(); err == nil {
		t.Fatal("a frozen server answered")
	}
	s.Continue()
	if got, err := client(t, url).Get(t.Context(), "k").Result(); got != "v" {
		t.Fatalf("after Continue: %q, %v", got, err)
	}

	s.Kill()
	if err := client(t, url).Ping(t.Context()).Err(); err == nil {
		t.Fatal("a killed server answered")
	}
	s.Restart()
	if s.URL() != url {
		t.Fatalf("restarted at %s, want %s", s.URL(), url)
	}
	if got, err := client(t, url).Get(t.Context(), "k").Result(); got != "v" {
		t.Fatalf("after Restart: %q, %v", got, err)
	}

	s.RestartEmpty()
	if err := client(t, url).Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("after RestartEmpty: %v, want redis.Nil", err)
	}
}

func TestRedisCluster(t *testing.T) {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: RedisCluster(t)})
	defer c.Close()
	used := map[string]bool{}
	for i := range 30 {
		key := "testenv:" + strconv.Itoa(i)
		if err := c.Set(t.Context(), key, i, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		node, err := c.MasterForKey(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		used[node.Options().Addr] = true
	}
	if len(used) != 3 {
		t.Fatalf("keys are on %d masters, want 3", len(used))
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestPostgresGivesFreshDatabases(t *testing.T) {
	one, two := connect(t, Postgres(t)), connect(t, Postgres(t))
	for _, conn := range []*pgx.Conn{one, two} {
		if _, err := conn.Exec(t.Context(), "CREATE TABLE taken (n int)"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPostgresFaults(t *testing.T) {
	s := StartPostgres(t, "fsync=on")
	conn := connect(t, s.URL())
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT current_setting('fsync') AS fsync"); err != nil {
		t.Fatal(err)
	}

	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT 1"); err == nil {
		t.Fatal("a frozen server answered")
	}
	s.Continue()

	conn = connect(t, s.URL())
	s.Kill()
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Fatal("a killed server answered")
	}
	s.Restart()
	var fsync string
	if err := connect(t, s.URL()).QueryRow(t.Context(), "SELECT fsync FROM kept").Scan(&fsync); err != nil || fsync != "on" {
		t.Fatalf("after Restart: fsync = %q, %v", fsync, err)
	}
}

// The wall clock jumps in sessions that there are, and back.
func TestPostgresClock(t *testing.T) {
	s := StartPostgresWithClock(t)
	conn := connect(t, s.URL())
	for _, wrong := range []time.Duration{0, 20 * time.Second, -20 * time.Second, 0} {
		s.SetClock(wrong)
		var now time.Time
		if err := conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
			t.Fatal(err)
		}
		if off := now.Sub(time.Now().Add(wrong)).Abs(); off > 2*time.Second {
			t.Errorf("set to %v, it is %v away from that", wrong, off)
		}
	}
}

func TestRedisClock(t *testing.T) {
	s := StartRedisWithClock(t)
	rdb := redisClient(s.Addr())
	defer rdb.Close()
	for _, wrong := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, 0} {
		s.SetClock(wrong)
		now, err := rdb.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if off := now.Sub(time.Now().Add(wrong)).Abs(); off > 2*time.Second {
			t.Errorf("set to %v, it is %v away from that", wrong, off)
		}
	}
}

// A test binary that is killed takes its servers along.
func TestServersDieWithTheProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TESTENV_SERVE=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); len(pids) < 2 && lines.Scan(); {
		if pid, ok := strings.CutPrefix(lines.Text(), "server "); ok {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, n)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if len(pids) != 2 {
		t.Fatalf("the child started %d servers, want 2", len(pids))
	}
	for _, pid := range pids {
		waitState(pid, "ZX")
		if state, _ := stat(pid); state != 'Z' && state != 'X' {
			t.Errorf("server %d outlived its test process: state %c", pid, state)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
