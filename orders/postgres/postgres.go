// Package postgres stores orders in Postgres 13 or later, in the tables that package migrations creates.
package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/transaction"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
)

// Store is an orders.Store. The zero value is not usable; use New. Safe for concurrent use.
type Store struct {
	pool  *pgxpool.Pool
	feed  watermark
	beats beats
}

var _ orders.Store = (*Store)(nil)

// New returns a store over a pool that the caller owns. Its connections must use the isolation level read committed.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Ping returns an error unless the database answers.
func (s *Store) Ping(ctx context.Context) error { return wrap("ping", s.pool.Ping(ctx)) }

// CheckSchema compares the database with package migrations.
func (s *Store) CheckSchema(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(s.pool)
	defer db.Close() // the pool stays open
	err := migrations.CheckPostgres(ctx, db)
	var incomplete *migrations.IncompleteError
	if errors.Is(err, migrations.ErrOutdated) || errors.As(err, &incomplete) {
		return err
	}
	return wrap("check the schema", err)
}

const (
	// leaderSilence is how long the session of a leader may be idle before Postgres ends it, and with it the lead.
	leaderSilence = 3 * time.Second
	leaderWord    = time.Second
)

// Lead holds an advisory lock in a transaction while fn runs. fn's context ends
// when the lock may be lost.
func (s *Store) Lead(ctx context.Context, sale string, fn func(context.Context) error) (led bool, err error) {
	var failed error                                                      // of fn
	err = wrap("lead", pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { // never repeated, because fn has run
		if _, err := tx.Exec(ctx, `SELECT set_config('idle_in_transaction_session_timeout', $1, true)`,
			strconv.FormatInt(leaderSilence.Milliseconds(), 10)); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))`, "tidegate sale "+sale).Scan(&led); err != nil || !led {
			return err
		}
		g, leading := errgroup.WithContext(ctx)
		leading, stop := context.WithCancel(leading)
		g.Go(func() error { return keepAlive(leading, tx) })
		failed = fn(leading)
		stop()
		return g.Wait()
	}))
	if failed != nil {
		err = failed
	}
	return led, err
}

// keepAlive keeps the leader's session from being idle, until ctx ends.
func keepAlive(ctx context.Context, tx pgx.Tx) error {
	for {
		if !periodic.Pause(ctx, leaderWord) {
			return nil
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaderSilence)
		_, err := tx.Exec(within, `SELECT 1`)
		cancel()
		if err != nil {
			return err
		}
	}
}

// inTx runs fn in one transaction, which is repeated as package transaction describes.
func (s *Store) inTx(ctx context.Context, op string, fn func(pgx.Tx) error) error {
	return wrap(op, transaction.Repeat(func() error { return pgx.BeginFunc(ctx, s.pool, fn) }))
}

// wrap classifies errors by their SQLSTATE.
func wrap(op string, err error) error {
	var pg *pgconn.PgError
	refused := false
	if errors.As(err, &pg) && len(pg.Code) == 5 {
		switch pg.Code[:2] {
		case "22", "23", "P0": // data exception, integrity violation, raised by a trigger
			refused = true
		}
	}
	return orders.StoreError("postgres: "+op, err, refused)
}
