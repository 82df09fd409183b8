package metrics_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestClients(t *testing.T) {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	held := rdb.Conn()
	t.Cleanup(func() { _ = held.Close() })
	for _, ping := range []func() error{held.Ping(t.Context()).Err, rdb.Ping(t.Context()).Err} {
		if err := ping(); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pgxpool.New(t.Context(), testenv.Postgres(t)+"&pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Release)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := pool.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}

	m := metrics.New("test")
	m.Redis(map[string]metrics.RedisClient{"queue": {Client: rdb, Trips: func() uint64 { return 42 }}})
	m.Postgres(pool)
	got := scrape(t, m)
	maps.DeleteFunc(got, func(name, _ string) bool {
		return !strings.HasPrefix(name, "tidegate_redis") && !strings.HasPrefix(name, "tidegate_postgres") || strings.Contains(name, "_wait")
	})
	want := map[string]string{
		`tidegate_redis_round_trips_total{client="queue"}`: "42", `tidegate_redis_connection_timeouts_total{client="queue"}`: "0",
		`tidegate_redis_connections{client="queue",state="in_use"}`: "1", `tidegate_redis_connections{client="queue",state="idle"}`: "1",
		`tidegate_postgres_connections_max`: "1", `tidegate_postgres_connections{state="in_use"}`: "1",
		`tidegate_postgres_connections{state="idle"}`: "0", `tidegate_postgres_connections{state="opening"}`: "0",
		`tidegate_postgres_gave_up_total`: "1",
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
