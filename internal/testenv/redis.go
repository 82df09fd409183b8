package testenv

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	sharedRedis   lazy[*server]
	sharedCluster lazy[[]*server]
)

// Redis returns the redis:// URL of this test binary's Redis, or TEST_REDIS_URL.
func Redis(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("TEST_REDIS_URL"); url != "" {
		return url
	}
	return redisURL(sharedRedis.get(t, func() (*server, error) { return newRedis("") }))
}

// RedisServer is a Redis for one test. It is not safe for concurrent use.
type RedisServer struct {
	t testing.TB
	s *server
}

// StartRedis starts a Redis that ends with the test. The arguments are those of redis-server ("--appendfsync", "always") and override the
// defaults: append-only file, no snapshots, noeviction.
func StartRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, "", args...)
}

// StartRedisWithClock starts a Redis whose wall clock SetClock can shift.
func StartRedisWithClock(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, faketime(t), args...)
}

func startRedis(t testing.TB, faketime string, args ...string) *RedisServer {
	t.Helper()
	s, err := newRedis(faketime, args...)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(s.remove)
	return &RedisServer{t: t, s: s}
}

// SetClock shifts the server's wall clock by wrong. Its monotonic clock is not changed.
func (r *RedisServer) SetClock(wrong time.Duration) {
	r.t.Helper()
	if err := setClock(r.s, wrong); err != nil {
		r.t.Errorf("testenv: set the clock of Redis: %v", err)
	}
}

// URL returns the server's redis:// URL; a restart keeps it.
func (r *RedisServer) URL() string { return redisURL(r.s) }

// Addr returns the server's host:port; a restart keeps it.
func (r *RedisServer) Addr() string { return r.s.addr() }

// User gives a user exactly these rights, besides the password, and returns the server's URL for it.
func (r *RedisServer) User(name, password string, rights ...string) (url string) {
	r.t.Helper()
	rdb := redisClient(r.Addr())
	defer rdb.Close()
	if err := rdb.ACLSetUser(r.t.Context(), name, append([]string{"reset", "on", ">" + password}, rights...)...).Err(); err != nil {
		r.t.Fatalf("testenv: user: %v", err)
	}
	return "redis://" + name + ":" + password + "@" + r.Addr() + "/0"
}

// Denied returns what users were not permitted to do: reason, object and context of each entry of ACL LOG.
func (r *RedisServer) Denied() (list []string) {
	r.t.Helper()
	rdb := redisClient(r.Addr())
	defer rdb.Close()
	entries, err := rdb.ACLLog(r.t.Context(), 100).Result()
	if err != nil {
		r.t.Fatalf("testenv: ACL LOG: %v", err)
	}
	for _, e := range entries {
		list = append(list, e.Reason+" "+e.Object+" "+e.Context)
	}
	return list
}

// Kill kills the server; its append-only file stays.
func (r *RedisServer) Kill() { r.s.kill() }

// Stop freezes the server: the kernel still accepts connections, but the server does not answer.
func (r *RedisServer) Stop() { r.s.stop() }

// Continue ends a Stop.
func (r *RedisServer) Continue() { r.s.cont() }

// Restart kills the server if it is running and starts it with the data in its files.
func (r *RedisServer) Restart() {
	r.t.Helper()
	if err := r.s.restart(); err != nil {
		r.t.Fatalf("testenv: restart: %v", err)
	}
}

// RestartEmpty is Restart with the files removed: the server has no data.
func (r *RedisServer) RestartEmpty() {
	r.t.Helper()
	r.s.kill()
	if err := os.RemoveAll(r.s.dir); err != nil {
		r.t.Fatalf("testenv: restart empty: %v", err)
	}
	if err := os.Mkdir(r.s.dir, 0o700); err != nil {
		r.t.Fatalf("testenv: restart empty: %v", err)
	}
	r.Restart()
}

// StartReplica starts a replica of this server, and waits until it is up to date. It ends with the test.
func (r *RedisServer) StartReplica(args ...string) *RedisServer {
	r.t.Helper()
	replica := StartRedis(r.t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(r.s.port)}, args...)...)
	replica.awaitMaster(r)
	return replica
}

// Follow makes this running server a replica of another one, and waits until it has its data. What only this server has is lost.
func (r *RedisServer) Follow(master *RedisServer) {
	r.t.Helper()
	r.replicaOf("127.0.0.1", strconv.Itoa(master.s.port))
	r.awaitMaster(master)
}

// Promote ends Follow, or what StartReplica began: the server keeps its data and accepts writes.
func (r *RedisServer) Promote() {
	r.t.Helper()
	r.replicaOf("NO", "ONE")
}

func (r *RedisServer) replicaOf(host, port string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	rdb := redisClient(r.Addr())
	defer rdb.Close()
	if err := rdb.ReplicaOf(ctx, host, port).Err(); err != nil {
		r.t.Fatalf("testenv: replica: %v", err)
	}
}

// awaitMaster waits until this server and its master have finished the first synchronization.
func (r *RedisServer) awaitMaster(master *RedisServer) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for addr, line := range map[string]string{r.Addr(): "master_link_status:up", master.Addr(): "state=online"} {
		rdb := redisClient(addr)
		err := awaitInfo(ctx, rdb, line)
		_ = rdb.Close()
		if err != nil {
			r.t.Fatalf("testenv: replica: %v", err)
		}
	}
}

func redisURL(s *server) string { return "redis://" + s.addr() + "/0" }

// newRedis starts a server, with libfaketime if faketime is not empty.
func newRedis(faketime string, args ...string) (*server, error) {
	bin, err := redisServer()
	if err != nil {
		return nil, err
	}
	s := &server{
		name: "redis",
		command: func(s *server) *exec.Cmd {
			//nolint:noctx // it lives until its test or the process ends
			cmd := exec.Command(bin, append([]string{
				"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir,
				"--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction",
				"--repl-diskless-sync-delay", "0", // sends a replica its data at once, not after five seconds
			}, args...)...)
			// A separate process group: an interrupt from the terminal only reaches the tests, which stop their servers.
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
			if faketime != "" {
				// With the malloc of libc: libfaketime reads the clock for the first time inside jemalloc's, and does not return.
				cmd.Env = clockEnv(s, faketime+":libc.so.6")
			}
			return cmd
		},
		ready: redisReady,
	}
	if faketime != "" {
		s.reset = func(_ context.Context, s *server) error { return setClock(s, 0) }
	}
	return s, s.create()
}

// redisServer returns the path of the server: TEST_REDIS_SERVER, which may be another version or valkey-server, or the one in PATH.
func redisServer() (string, error) {
	return findBinary(cmp.Or(os.Getenv("TEST_REDIS_SERVER"), "redis-server"))
}

func redisClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ContextTimeoutEnabled: true,
	})
}

// redisReady checks the process id, since another process may have taken the port first.
func redisReady(ctx context.Context, s *server) error {
	c := redisClient(s.addr())
	defer c.Close()
	if err := c.Ping(ctx).Err(); err != nil { // fails with LOADING while the file is read
		return err
	}
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if want := fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid); !strings.Contains(info, want) {
		return fmt.Errorf("%s is another server's", s.addr())
	}
	return nil
}

// awaitInfo waits until the server's replication info contains part.
func awaitInfo(ctx context.Context, rdb *redis.Client, part string) error {
	for {
		info, err := rdb.Info(ctx, "replication").Result()
		if err == nil && strings.Contains(info, part) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no %s: %w", part, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}
