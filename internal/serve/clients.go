package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/pgclient"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/asynqueue"
	"github.com/tidegate/tidegate/orders/shop"
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
	Conns     int               // that the clients may make, if a cluster has no more servers than the URL names

	queue *redisclient.Client // closes Queue
}

// loginWithin is the least timeout for the Redis of logins. Checking a password takes longer anyway.
const loginWithin = time.Second

// redisOptions are the settings of a process's clients of Redis, without their timeouts.
type redisOptions struct{ decisions, queue *redis.UniversalOptions }

func parseRedis(decisions, queue config.URL, files redisclient.Files) (o redisOptions, err error) {
	if o.decisions, err = files.Options(string(decisions)); err != nil {
		return o, wrap("REDIS_URL", err)
	}
	o.queue, err = files.Options(string(queue))
	return o, wrap("QUEUE_REDIS_URL", err)
}

// detectClusters waits until the servers answer, for at most timeout, because clients of a Redis Cluster differ from those of one server.
func (o redisOptions) detectClusters(ctx context.Context, cfg *config.Config, log *slog.Logger, timeout time.Duration) error {
	detect := func(opts *redis.UniversalOptions) func(context.Context) error {
		return func(ctx context.Context) error {
			slow := *opts
			redisclient.SetTimeout(&slow, loginWithin)
			err := redisclient.DetectCluster(ctx, &slow)
			opts.IsClusterMode = slow.IsClusterMode
			return err
		}
	}
	servers := []dependency{{"REDIS_URL", cfg.Redis, detect(o.decisions)}}
	if cfg.Queue != cfg.Redis {
		servers = append(servers, dependency{"QUEUE_REDIS_URL", cfg.Queue, detect(o.queue)})
	}
	err := await(ctx, log, timeout, servers...)
	if cfg.Queue == cfg.Redis {
		o.queue.IsClusterMode = o.decisions.IsClusterMode
	}
	return err
}

// OpenRedis does not connect yet, so a Redis Cluster behind one address needs redis+cluster://. The timeout is that of a call for
// decisions; 0 is redisclient.DefaultTimeout.
func OpenRedis(decisions, queue config.URL, timeout time.Duration) (*Redis, error) {
	o, err := parseRedis(decisions, queue, redisclient.Files{})
	if err != nil {
		return nil, err
	}
	return o.open(timeout)
}

func (o redisOptions) open(timeout time.Duration) (*Redis, error) {
	if timeout > 0 {
		redisclient.SetTimeout(o.decisions, timeout)
	}
	logins := *o.decisions
	redisclient.SetTimeout(&logins, max(timeout, loginWithin))

	decider, err := redisclient.New(o.decisions)
	if err != nil {
		return nil, wrap("REDIS_URL", err)
	}
	queued, err := redisclient.New(o.queue)
	if err != nil {
		return nil, wrap("QUEUE_REDIS_URL", err)
	}
	r := &Redis{
		Decisions: decider, Logins: redisclient.NewUniversal(&logins), Queue: queued.Queue(), queue: queued,
		Trips: map[string]*trips{"decisions": {}, "logins": {}, "queue": {}},
	}
	for _, opts := range []*redis.UniversalOptions{o.decisions, &logins, o.queue} {
		r.Conns += opts.PoolSize * max(len(opts.Addrs), 1)
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
	logConnections(ctx, log, pool)
	r.warnOfDistance(ctx, log, cfg.RedisTimeout)
	if cfg.Migrate {
		return pgclient.Migrate(ctx, string(cfg.Database), log)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close() // the pool stays open
	return migrations.CheckPostgres(ctx, db)
}

// openOrders waits while Redis or the database does not answer.
func openOrders(ctx context.Context, cfg *config.Config, log *slog.Logger, timeout time.Duration, r *Redis, store shop.Store,
	opts shop.Options,
) (service *shop.Service, err error) {
	var other error // than a missing answer
	err = await(ctx, log, timeout, dependency{"REDIS_URL, DATABASE_URL", cfg.Redis, func(ctx context.Context) error {
		if service, other = shop.Open(ctx, r.Decisions, store, asynqueue.New(r.Queue), opts); errors.Is(other, orders.ErrUnavailable) {
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
	return service, other
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
