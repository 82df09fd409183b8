package stack

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/tidegate/tidegate/internal/testenv"
)

// Servers are a Redis and a Postgres for this process only, and further Redis servers for those stacks that ask for them.
type Servers struct {
	Redis    *redis.Client // for the bench itself
	redisURL string
	redis    []*redis.Client // all servers
	redisPID []int
	cluster  string // URL; empty: not started yet
	queue    string // URL of a Redis for the queue alone; empty: not started yet
	t        testing.TB
	Database *pgx.Conn // for the bench itself, in the database of the turn
	admin    *pgx.Conn
	pgURL    string
	pgPID    int
	turns    int
}

// StartServers starts both: Redis with an append-only file that is flushed every second, Postgres with or without fsync. They end with t.
func StartServers(t testing.TB, fsync bool) (*Servers, error) {
	// No rewrite of the file, which would affect some turns and not others.
	r := testenv.StartRedis(t, "--auto-aof-rewrite-percentage", "0", "--slowlog-log-slower-than", "-1", "--slowlog-max-len", "200000")
	p := testenv.StartPostgres(t, "fsync="+strconv.FormatBool(fsync), "full_page_writes=on", "shared_buffers=256MB", "max_wal_size=4GB",
		"track_commit_timestamp=on")
	ctx := t.Context()
	s := &Servers{Redis: redis.NewClient(&redis.Options{Addr: r.Addr(), ReadTimeout: time.Minute}), redisURL: r.URL(), pgURL: p.URL(), t: t}
	err := s.watch(ctx, s.Redis)
	if err != nil {
		return nil, err
	}
	if s.admin, err = pgx.Connect(ctx, s.pgURL); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = s.admin.Close(context.WithoutCancel(ctx)) })
	// The second field of a child's stat is the parent, the postmaster.
	var backend int
	if err := s.admin.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, err
	}
	if s.pgPID, err = strconv.Atoi(stat(backend)[1]); err != nil {
		return nil, fmt.Errorf("parent of a backend: %w", err)
	}
	return s, nil
}

// watch adds a Redis to those that Fresh empties and CPU counts.
func (s *Servers) watch(ctx context.Context, rdb *redis.Client) error {
	s.t.Cleanup(func() { _ = rdb.Close() })
	text, err := info(ctx, rdb, "server", "process_id")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("process_id: %w", err)
	}
	s.redis, s.redisPID = append(s.redis, rdb), append(s.redisPID, pid)
	return nil
}

// redisFor returns the URLs of the Redis for decisions and for the queue, and starts what a stack needs.
func (s *Servers) redisFor(ctx context.Context, o Options) (decisions, queue string, err error) {
	decisions = s.redisURL
	if o.Cluster && s.cluster == "" {
		addrs := testenv.RedisCluster(s.t)
		for _, addr := range addrs {
			if err := s.watch(ctx, redis.NewClient(&redis.Options{Addr: addr})); err != nil {
				return "", "", err
			}
		}
		s.cluster = "redis://" + strings.Join(addrs, ",")
	}
	if o.OwnQueue && s.queue == "" {
		r := testenv.StartRedis(s.t)
		if err := s.watch(ctx, redis.NewClient(&redis.Options{Addr: r.Addr()})); err != nil {
			return "", "", err
		}
		s.queue = r.URL()
	}
	if o.Cluster {
		decisions = s.cluster
	}
	if o.OwnQueue {
		return decisions, s.queue, nil
	}
	return decisions, decisions, nil
}

// Fresh empties Redis and creates an empty database, whose URL it returns.
func (s *Servers) Fresh(ctx context.Context) (database string, err error) {
	for _, rdb := range s.redis {
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			return "", err
		}
		if err := rdb.ScriptFlush(ctx).Err(); err != nil {
			return "", err
		}
	}
	if s.Database != nil {
		_ = s.Database.Close(ctx)
	}
	s.turns++
	name := fmt.Sprintf("turn_%d", s.turns)
	// Flush the pages written in the last turn, so that the next one does not pay for them.
	for _, sql := range []string{
		fmt.Sprintf("DROP DATABASE IF EXISTS turn_%d WITH (FORCE)", s.turns-1), "CREATE DATABASE " + name,
		"CHECKPOINT",
	} {
		if _, err := s.admin.Exec(ctx, sql); err != nil {
			return "", err
		}
	}
	database = strings.Replace(s.pgURL, "/postgres?", "/"+name+"?", 1)
	s.Database, err = pgx.Connect(ctx, database)
	return database, err
}

// CPU returns the CPU time of all Redis servers and of Postgres, including child processes.
func (s *Servers) CPU() (redis, postgres time.Duration) {
	for _, pid := range s.redisPID {
		redis += FamilyCPU(pid)
	}
	return redis, FamilyCPU(s.pgPID)
}

// Waits returns how often all Redis servers, and Postgres with its children, have waited for something.
func (s *Servers) Waits() (redis, postgres int64) {
	for _, pid := range s.redisPID {
		redis += familyWaits(pid)
	}
	return redis, familyWaits(s.pgPID)
}

// Transactions returns how many transactions Postgres has ended in the database of the turn. Sessions report them within a second.
func (s *Servers) Transactions(ctx context.Context) (n int64, err error) {
	err = s.admin.QueryRow(ctx, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1`,
		fmt.Sprintf("turn_%d", s.turns)).Scan(&n)
	return n, err
}

// RedisMemory returns the memory that Redis uses, in bytes.
func (s *Servers) RedisMemory(ctx context.Context) (bytes int64, err error) {
	text, err := info(ctx, s.Redis, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// Versions returns the versions of both servers.
func (s *Servers) Versions(ctx context.Context) (redis, postgres string) {
	redis, _ = info(ctx, s.Redis, "server", "redis_version")
	_ = s.admin.QueryRow(ctx, `SHOW server_version`).Scan(&postgres)
	return redis, postgres
}

func info(ctx context.Context, rdb *redis.Client, section, name string) (string, error) {
	text, err := rdb.Info(ctx, section).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO %s has no %s", section, name)
}
