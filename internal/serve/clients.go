package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/redisclient"
)

// StartTimeout is how long a process waits for its servers at the start.
const StartTimeout = 30 * time.Second

// Redis is the Redis clients of one process: decisions time out early, queue operations late. The zero value is not usable.
type Redis struct {
	Decisions *redisclient.Client
	Logins    redis.UniversalClient // with a longer timeout: counts of requests that timed out are not reverted
	Queue     redis.UniversalClient
	Trips     map[string]*trips // of each client: decisions, logins, queue

	queue *redisclient.Client // closes Queue
}

// loginWithin is the least timeout for the Redis of logins. Checking a password takes longer anyway.
const loginWithin = time.Second

// OpenRedis does not connect yet. The timeout is that of a call for decisions; 0 is redisclient.DefaultTimeout.
func OpenRedis(decisions, queue config.URL, timeout time.Duration) (*Redis, error) {
	opts, err := redisclient.ParseURL(string(decisions))
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	if timeout > 0 {
		redisclient.SetTimeout(opts, timeout)
	}
	logins := *opts
	redisclient.SetTimeout(&logins, max(timeout, loginWithin))

	decider, err := redisclient.New(opts)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	queued, err := redisclient.Open(string(queue))
	if err != nil {
		return nil, fmt.Errorf("QUEUE_REDIS_URL: %w", err)
	}
	r := &Redis{
		Decisions: decider, Logins: redisclient.NewUniversal(&logins), Queue: queued.Queue(), queue: queued,
		Trips: map[string]*trips{"decisions": {}, "logins": {}, "queue": {}},
	}
	for name, client := range r.clients() {
		client.AddHook(r.Trips[name])
	}
	return r, nil
}

// clients returns all clients, by their names in metrics.
func (r *Redis) clients() map[string]redis.UniversalClient {
	return map[string]redis.UniversalClient{"decisions": r.Decisions, "logins": r.Logins, "queue": r.Queue}
}

// CloseAfter closes all clients when a process has ended with err. It does not if err is errGivenUp, because Asynq still uses
// the clients then, and would panic.
func (r *Redis) CloseAfter(err error) {
	if errors.Is(err, errGivenUp) {
		return
	}
	for _, client := range []redis.UniversalClient{r.Decisions, r.Logins, r.queue} {
		_ = client.Close() // closing writes nothing
	}
}

// minConns prevents a deadlock: leading a sale's recovery holds a connection, and needs others meanwhile.
const minConns = 4

// openPool does not connect yet. Parameters in the URL take precedence.
func openPool(ctx context.Context, url config.URL, program string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(string(url))
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	for name, value := range map[string]string{
		"application_name": "tidegate-" + program,
		// An order leaves the outbox when its commit returns, so the commit must be on disk by then.
		"synchronous_commit": "on",
		// A statement that takes longer is stuck, and holds a connection that others need.
		"statement_timeout": "30s",
		// Our transactions never pause. That of a stopped process would hold locks that a recovery waits for.
		"idle_in_transaction_session_timeout": "5s",
	} {
		if _, said := c.ConnConfig.RuntimeParams[name]; !said {
			c.ConnConfig.RuntimeParams[name] = value
		}
	}
	if !strings.Contains(string(url), "pool_max_conns=") {
		c.MaxConns = 16
	}
	if c.MaxConns < minConns {
		return nil, fmt.Errorf("DATABASE_URL: pool_max_conns must be at least %d, because leading a recovery holds one connection "+
			"while others are needed, got %d", minConns, c.MaxConns)
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	return pool, nil
}

// awaitServers waits until Redis and Postgres answer and the schema is there.
func awaitServers(ctx context.Context, cfg *config.Config, log *slog.Logger, timeout time.Duration, r *Redis, pool *pgxpool.Pool) error {
	servers := []dependency{
		{"REDIS_URL", cfg.Redis, func(ctx context.Context) error { return r.ping(ctx, cfg.RedisTimeout) }},
		{"DATABASE_URL", cfg.Database, pool.Ping},
	}
	if cfg.Queue != cfg.Redis {
		servers = append(servers, dependency{"QUEUE_REDIS_URL", cfg.Queue, func(ctx context.Context) error { return r.Queue.Ping(ctx).Err() }})
	}
	if err := await(ctx, log, timeout, servers...); err != nil {
		return err
	}
	logVersions(ctx, cfg, log, r, pool)
	r.warnOfDistance(ctx, log, cfg.RedisTimeout)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close() // the pool stays open
	if cfg.Migrate {
		return migrations.Postgres(ctx, db)
	}
	return migrations.CheckPostgres(ctx, db)
}

// openOrders waits while Redis or the database does not answer.
func openOrders(ctx context.Context, cfg *config.Config, log *slog.Logger, timeout time.Duration, r *Redis, store orders.Store, opts orders.Options,
) (shop *orders.Service, err error) {
	var other error // than a missing answer
	err = await(ctx, log, timeout, dependency{"REDIS_URL, DATABASE_URL", cfg.Redis, func(ctx context.Context) error {
		if shop, other = orders.Open(ctx, r.Decisions, store, opts); errors.Is(other, orders.ErrUnavailable) {
			return other
		}
		return nil
	}})
	switch {
	case err != nil:
		return nil, err
	case errors.Is(other, orders.ErrDurability):
		return nil, wrap("DURABILITY", other)
	}
	return shop, other
}

// warnOfStandbys logs a warning if the database replicates without a synchronous standby: after a failover the last commits may
// be lost.
func warnOfStandbys(ctx context.Context, log *slog.Logger, pool *pgxpool.Pool) {
	var (
		standbys    int
		synchronous string
	)
	if err := pool.QueryRow(ctx, `SELECT count(*), current_setting('synchronous_standby_names') FROM pg_stat_replication`).
		Scan(&standbys, &synchronous); err != nil {
		log.WarnContext(ctx, "cannot read the replication state of Postgres", slog.Any("error", err))
		return
	}
	if standbys > 0 && synchronous == "" {
		log.WarnContext(ctx, "Postgres has no synchronous standby: a failover may lose the last commits; set synchronous_standby_names",
			slog.Int("standbys", standbys))
	}
}
