package serve

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/banlog"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/semdefs"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
)

// linger is time for a balancer that asks readyz a few times a second, and for connections that are already on their way.
const linger = 500 * time.Millisecond

// API serves HTTP over Redis and Postgres until ctx ends.
func API(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	return overServers(ctx, cfg, log, "api", Patience, func(p *Process, svc *orders.Service, r *Redis, db *sql.DB) error {
		shared, err := admission.AutoPipeline(r.Decisions)
		if err != nil {
			return err
		}
		return p.AddHTTP(cfg, HTTP{
			Orders: svc, Counts: admission.NewRedisStore(shared), Bans: banlog.Postgres(db), Redis: r.Decisions, Semaphores: semdefs.Postgres(db),
		})
	})
}

// Worker commits orders until ctx ends.
func Worker(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	return overServers(ctx, cfg, log, "worker", Patience, func(p *Process, svc *orders.Service, r *Redis, db *sql.DB) error {
		// What the rules file says of semaphores the API has declared.
		if _, err := p.addSemaphores(r.Decisions, semdefs.Postgres(db), semdefs.Options{Namespace: cfg.Namespace, Logger: log}); err != nil {
			return err
		}
		worker, err := orders.NewWorker(svc, orders.WorkerOptions{})
		if err != nil {
			return err
		}
		p.Worker = worker
		p.addProbes(cfg.WorkerListen, svc.Ready)
		return nil
	})
}

// overServers waits for Redis and Postgres, lets equip make the process what it is, and runs it.
func overServers(ctx context.Context, cfg *config.Config, log *slog.Logger, program string, patience time.Duration,
	equip func(*Process, *orders.Service, *Redis, *sql.DB) error,
) error {
	r, err := OpenRedis(cfg.Redis, cfg.Queue, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	pool, err := openPool(ctx, cfg.Database, program)
	if err != nil {
		return err
	}
	defer closePool(pool)
	if err := awaitServers(ctx, cfg, log, patience, r, pool); err != nil {
		return err
	}
	svc, err := orders.New(r.Decisions, r.Queue, postgres.New(pool), r.Fence, orders.Options{Namespace: cfg.Namespace, Logger: log})
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close() // the pool stays open
	p := &Process{Log: log, Service: svc, Linger: linger}
	if err := equip(p, svc, r, db); err != nil {
		return err
	}
	return p.Run(ctx)
}

// closePool does not wait for ever for connections that a given-up shutdown left in use.
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
