package main

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tidegate/tidegate/internal/testenv"
)

// A redisServer is a Redis for this process, without persistence.
type redisServer struct {
	addr  string
	admin *redis.Client
}

// startRedis starts a server that ends with t.
func startRedis(t testing.TB) *redisServer {
	addr := testenv.StartRedis(t, "--appendonly", "no").Addr()
	s := &redisServer{addr: addr, admin: redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute})}
	t.Cleanup(func() { _ = s.admin.Close() })
	return s
}

func (s *redisServer) url() string { return "redis://" + s.addr }

// client returns a client with go-redis' default settings.
func (s *redisServer) client() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.addr}) }

func (s *redisServer) version(ctx context.Context) string {
	return s.admin.InfoMap(ctx, "server").Item("Server", "redis_version")
}

// empty deletes all keys.
func (s *redisServer) empty(ctx context.Context) error { return s.admin.FlushAll(ctx).Err() }

// memory returns the server's memory use in bytes, without that of its connections.
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

// usage returns the number of keys and the sum of their MEMORY USAGE.
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
