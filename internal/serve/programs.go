package serve

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/history"
	"github.com/tidegate/tidegate/internal/pgclient"
	"github.com/tidegate/tidegate/internal/reload"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/orders/postgres"
	"github.com/tidegate/tidegate/orders/shop"
	"github.com/tidegate/tidegate/waitingroom"
)

// Linger is time for a load balancer that polls readyz a few times per second, and for connections in flight.
const Linger = 500 * time.Millisecond

// API serves HTTP over Redis and Postgres until ctx ends.
func API(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	return overServers(ctx, cfg, log, "api", StartTimeout, func(p *Process, svc *shop.Service, r *Redis, db *sql.DB) error {
		compareSecret(ctx, cfg, r.Logins, log)
		return p.AddHTTP(ctx, cfg, HTTP{
			Orders: svc, Counts: redisstore.New(r.Decisions.Batched), Redis: r, Semaphores: semregistry.Postgres(db),
			Rooms:    waitingroom.Postgres(db),
			Failures: login.NewRedisStore(r.Logins), History: history.Postgres(db), Within: decideWithin(cfg),
		})
	})
}

// Worker commits orders until ctx ends.
func Worker(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	return overServers(ctx, cfg, log, "worker", StartTimeout, func(p *Process, svc *shop.Service, r *Redis, db *sql.DB) error {
		p.measureInstallation(cfg.Namespace, svc, r)
		if cfg.Reports != "" {
			// The API declares the semaphores of the rules file.
			semaphores, err := p.addSemaphores(r.Decisions.UniversalClient, semregistry.Postgres(db), semregistry.Options{
				Namespace: cfg.Namespace, BuiltIn: semregistry.BuiltIn(), Logger: log,
			})
			if err != nil {
				return err
			}
			p.Metrics.Semaphores(semaphores)
			reporter, err := newReporter(cfg, log, svc, r.Queue, semaphores)
			if err != nil {
				return err
			}
			p.Worker = reporter
		}
		if cfg.RulesFile != "" {
			set, err := rulesOf(cfg)
			if err != nil {
				return err
			}
			live := rules.NewLive(set, log)
			p.Reloaded = append(p.Reloaded, func() reload.State {
				return reload.State{Setting: "RULES_FILE", Loaded: live.Loaded(), Failed: live.Failed()}
			})
			p.Background = append(p.Background, live.Run)
			script, err := p.addBanScript(cfg, r, redisstore.New(r.Decisions.UniversalClient), live.Rules)
			if err != nil {
				return err
			}
			p.Metrics.Add(script)
		}
		p.Metrics.Reloads(p.reloads)
		p.addProbes(cfg, svc.Conditions, p.Metrics.Handler())
		return nil
	})
}

func newReporter(
	cfg *config.Config, log *slog.Logger, svc *shop.Service, queue redis.UniversalClient, semaphores *semregistry.Registry,
) (*reports.Worker, error) {
	budget, err := semaphores.Semaphore(reports.Semaphore)
	if err != nil {
		return nil, err
	}
	reporter, err := reports.NewWorker(reports.WorkerOptions{
		Folder: cfg.Reports, Namespace: cfg.Namespace, Queue: queue, Orders: svc, Semaphore: budget, Logger: log,
	})
	return reporter, wrap("REPORTS", err)
}

// overServers waits for Redis and Postgres, calls equip to add the parts of the program, and runs the process.
func overServers(ctx context.Context, cfg *config.Config, log *slog.Logger, program string, timeout time.Duration,
	equip func(*Process, *shop.Service, *Redis, *sql.DB) error,
) (err error) {
	log, traces, err := Observe(ctx, cfg, log, "tidegate-"+program)
	if err != nil {
		return err
	}
	defer traces.Close()
	servers, err := parseRedis(cfg.Redis, cfg.Queue, cfg.RedisFiles)
	if err != nil {
		return err
	}
	if err := servers.detectClusters(ctx, cfg, log, timeout); err != nil {
		return err
	}
	r, err := servers.open(cfg.RedisTimeout)
	if err != nil {
		return err
	}
	defer func() { r.CloseAfter(err) }()
	pool, err := pgclient.Open(ctx, string(cfg.Database), "tidegate-"+program, cfg.DatabaseConns, log)
	if err != nil {
		return wrap("DATABASE_URL", err)
	}
	defer closePool(pool)
	if err := awaitServers(ctx, cfg, log, timeout, r, pool); err != nil {
		return err
	}
	warnOfStandbys(ctx, log, pool)
	measured := Metrics(r)
	measured.Postgres(pool)
	svc, err := openOrders(ctx, cfg, log, timeout, r, postgres.New(pool), shop.Options{
		Namespace: cfg.Namespace, Durability: shop.Durability(cfg.Durability), MaxRemembered: cfg.MaxRemembered, Timeout: decideWithin(cfg),
		AcceptOnly: program != "worker", CommitOnly: program == "worker",
		Measures: measured.Orders(), Tracer: traces.Tracer(), Logger: log, Program: program,
	})
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close() // the pool stays open
	p := &Process{
		Log: log, Tracer: traces.Tracer(), Metrics: measured, Service: svc, Linger: Linger, KeepAlive: cfg.KeepAlive,
		Servers: r.Conns + int(pool.Config().MaxConns) + 1,
	}
	if err := p.watchTLS(cfg.RedisFiles); err != nil {
		return err
	}
	if err := equip(p, svc, r, db); err != nil {
		return err
	}
	return p.Run(ctx)
}

// closePool closes the pool, and waits at most two seconds for connections that an aborted shutdown left in use.
func closePool(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(2 * time.Second):
	}
}

// both runs two runners until one of them ends.
type both [2]runner

func (b both) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range b {
		g.Go(func() error { return r.Run(ctx) })
	}
	return g.Wait()
}
