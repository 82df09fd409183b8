package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelRedis is a Redis with a replica for one test, monitored by three sentinels. It is not safe for concurrent use.
type SentinelRedis struct {
	Sentinels []string // addresses
	Master    string   // the master's name for the sentinels

	t       testing.TB
	servers [2]*server
	master  int // index into servers, as of the last failover by this test
}

// sentinelName is the master's name for the sentinels.
const sentinelName = "sale"

// StartSentinel starts all servers; they end with the test.
func StartSentinel(t testing.TB, args ...string) *SentinelRedis {
	t.Helper()
	s := &SentinelRedis{Master: sentinelName, t: t}
	fail := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatalf("testenv: sentinel: %v", err)
		}
	}
	for i := range s.servers {
		server, err := newRedis("", args...)
		fail(err)
		t.Cleanup(server.remove)
		s.servers[i] = server
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	replica := redisClient(s.servers[1].addr())
	defer replica.Close()
	fail(replica.ReplicaOf(ctx, "127.0.0.1", strconv.Itoa(s.servers[0].port)).Err())
	fail(awaitInfo(ctx, replica, "master_link_status:up"))
	for range 3 {
		server, err := newSentinel(s.servers[0].port)
		fail(err)
		t.Cleanup(server.remove)
		s.Sentinels = append(s.Sentinels, server.addr())
	}
	// A failover requires sentinels that have discovered each other and the replica.
	for _, addr := range s.Sentinels {
		fail(awaitSentinel(ctx, addr))
	}
	return s
}

func newSentinel(master int) (*server, error) {
	bin, err := redisServer()
	if err != nil {
		return nil, err
	}
	s := &server{
		name: "sentinel",
		reset: func(_ context.Context, s *server) error {
			// The sentinel stores its state in this file.
			return os.WriteFile(filepath.Join(s.dir, "sentinel.conf"), fmt.Appendf(nil, "sentinel monitor %[1]s 127.0.0.1 %[2]d 2\n"+
				"sentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 6000\n", sentinelName, master), 0o600)
		},
		command: func(s *server) *exec.Cmd {
			//nolint:noctx // it lives until its test or the process ends
			cmd := exec.Command(bin, filepath.Join(s.dir, "sentinel.conf"), "--sentinel", "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port),
				"--dir", s.dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
			return cmd
		},
		ready: redisReady,
	}
	return s, s.create()
}

func awaitSentinel(ctx context.Context, addr string) error {
	c := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer c.Close()
	for {
		master, err := c.Master(ctx, sentinelName).Result()
		if err == nil && master["num-slaves"] == "1" && master["num-other-sentinels"] == "2" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sentinel at %s has master %v: %w", addr, master, ctx.Err())
		case <-time.After(20 * pollInterval):
		}
	}
}

// awaitNamed waits until a sentinel returns a server as the master.
func awaitNamed(ctx context.Context, sentinel, server string) error {
	c := redis.NewSentinelClient(&redis.Options{Addr: sentinel, MaxRetries: -1})
	defer c.Close()
	for {
		addr, err := c.GetMasterAddrByName(ctx, sentinelName).Result()
		if err == nil && net.JoinHostPort(addr[0], addr[1]) == server {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sentinel at %s names %v: %w", sentinel, addr, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// Servers returns host:port of the master and its replica, in any order. It is safe to call at any time.
func (s *SentinelRedis) Servers() []string { return []string{s.servers[0].addr(), s.servers[1].addr()} }

// Addr returns the master's host:port.
func (s *SentinelRedis) Addr() string { return s.servers[s.master].addr() }

// RequirePassword makes the sentinels refuse all clients but this user.
func (s *SentinelRedis) RequirePassword(user, password string) {
	s.t.Helper()
	for _, addr := range s.Sentinels {
		c := redisClient(addr)
		for _, rights := range [][]any{
			{"ACL", "SETUSER", user, "on", ">" + password, "+@all", "allchannels"},
			{"ACL", "SETUSER", "default", "off"},
		} {
			if err := c.Do(s.t.Context(), rights...).Err(); err != nil {
				s.t.Fatalf("testenv: sentinel: %v", err)
			}
		}
		_ = c.Close()
	}
}

// FailOver kills the master and waits until the sentinels have promoted the replica, which lacks the writes of the time behind. The
// killed server is restarted as its replica.
func (s *SentinelRedis) FailOver(behind time.Duration) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	master, replica := redisClient(s.servers[s.master].addr()), redisClient(s.servers[1-s.master].addr())
	defer master.Close()
	defer replica.Close()
	must := func(err error) {
		if err != nil {
			s.t.Helper()
			s.t.Fatalf("testenv: failover: %v", err)
		}
	}
	must(awaitInfo(ctx, replica, "master_link_status:up"))
	// Freezing the replica is not enough: it would still read its socket's buffer. A replica with a wrong password stays disconnected.
	must(replica.ConfigSet(ctx, "masterauth", "wrong").Err())
	must(master.Do(ctx, "CLIENT", "KILL", "TYPE", "replica").Err())
	time.Sleep(behind)
	s.servers[s.master].kill()
	must(awaitInfo(ctx, replica, "role:master"))
	// Wait until all sentinels return the new master. If the old one came back earlier, clients would use it again and no write would be
	// missing.
	for _, addr := range s.Sentinels {
		must(awaitNamed(ctx, addr, s.servers[1-s.master].addr()))
	}
	must(replica.ConfigSet(ctx, "masterauth", "").Err())
	// It comes back as a replica. As a master, which it would be until the sentinels demote it, it could be promoted again with its old data,
	// should the machine be so slow that the new master seems down.
	old, command := s.servers[s.master], s.servers[s.master].command
	s.master = 1 - s.master
	old.command = func(server *server) *exec.Cmd {
		cmd := command(server)
		cmd.Args = append(cmd.Args, "--replicaof", "127.0.0.1 "+strconv.Itoa(s.servers[s.master].port))
		return cmd
	}
	defer func() { old.command = command }()
	must(old.restart())
}
