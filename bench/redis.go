package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A redisServer is a Redis of this process' own, without persistence.
type redisServer struct {
	cmd   *exec.Cmd
	dir   string
	addr  string
	admin *redis.Client
}

func startRedis(ctx context.Context) (_ *redisServer, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &redisServer{addr: l.Addr().String()}
	_ = l.Close() // the port is free for the moment that it takes
	if s.dir, err = os.MkdirTemp("", "tidegate-bench-"); err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	s.cmd = exec.Command("redis-server", //nolint:noctx // stop ends it in order
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", s.dir, "--save", "", "--appendonly", "no", "--loglevel", "warning")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	s.admin = redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1, ReadTimeout: time.Minute})
	if err := s.cmd.Start(); err != nil {
		s.stop()
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err = s.admin.Ping(ctx).Err(); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.stop()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}

func (s *redisServer) stop() {
	_ = s.admin.Close()
	if s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *redisServer) url() string { return "redis://" + s.addr }

// client returns a client with go-redis' defaults.
func (s *redisServer) client() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.addr}) }

func (s *redisServer) version(ctx context.Context) string {
	return s.admin.InfoMap(ctx, "server").Item("Server", "redis_version")
}

// empty makes the server forget everything.
func (s *redisServer) empty(ctx context.Context) error { return s.admin.FlushAll(ctx).Err() }

// memory returns how many bytes the server takes, without what its connections do.
func (s *redisServer) memory(ctx context.Context) (int64, error) {
	info := s.admin.InfoMap(ctx, "memory")
	used, err := strconv.ParseInt(info.Item("Memory", "used_memory"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("used_memory: %w", err)
	}
	clients, err := strconv.ParseInt(info.Item("Memory", "mem_clients_normal"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("mem_clients_normal: %w", err)
	}
	return used - clients, nil
}

// usage adds up what MEMORY USAGE says of all keys.
func (s *redisServer) usage(ctx context.Context) (keys int, bytes int64, err error) {
	for cursor := uint64(0); ; {
		var page []string
		if page, cursor, err = s.admin.Scan(ctx, cursor, "*", 1000).Result(); err != nil {
			return 0, 0, err
		}
		pipe := s.admin.Pipeline()
		for _, key := range page {
			pipe.MemoryUsage(ctx, key, 0)
		}
		cmds, err := pipe.Exec(ctx)
		if err != nil {
			return 0, 0, err
		}
		for _, cmd := range cmds {
			keys++
			bytes += cmd.(*redis.IntCmd).Val()
		}
		if cursor == 0 {
			return keys, bytes, nil
		}
	}
}
