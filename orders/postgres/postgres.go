// Package postgres stores orders in Postgres 13 or later, in the tables that package migrations creates.
package postgres

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Store is a storage.Store. The zero value is not usable; use New. Safe for concurrent use.
type Store struct {
	common
	db    *sqldb.DB
	pool  *pgxpool.Pool
	feed  watermark
	beats beats
	plain plainTries

	seesSystem atomic.Bool // the role may ask for the system identifier
}

type common = sqlstore.Store

var _ storage.Store = (*Store)(nil)

// New returns a store over a pool that the caller owns. Its connections must use the isolation level read committed, and have pgx's
// description cache, which is on by default.
func New(pool *pgxpool.Pool) *Store {
	words := sqlstore.Words{
		NextRevision: "nextval('sales_revision')",
		NoUnits:      "'{}'::integer[]",
		Payload:      "convert_from(payload, 'UTF8')::json",
		UTC:          `to_char(pay_before AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`,
		Standby:      "pg_is_in_recovery()",
	}
	db := sqldb.New(driver{pool}, func(ctx context.Context, fn func(sqldb.Driver) error) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return fn(driver{tx}) })
	}, words.Pairs()...)
	return &Store{common: sqlstore.New(db, wrap), db: db, pool: pool}
}

// driver is a pool or a transaction.
type driver struct {
	pgx interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

func (d driver) Exec(ctx context.Context, text string, args []any) (int64, error) {
	tag, err := d.pgx.Exec(ctx, text, args...)
	return tag.RowsAffected(), err
}

func (d driver) Query(ctx context.Context, text string, args []any, scan func(sqldb.Row) error) error {
	rows, err := d.pgx.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Ping returns an error unless the database answers.
func (s *Store) Ping(ctx context.Context) error { return wrap("ping", s.pool.Ping(ctx)) }

// CheckSchema compares the database with package migrations.
func (s *Store) CheckSchema(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(s.pool)
	defer db.Close() // the pool stays open
	return sqlstore.SchemaError(&s.common, migrations.CheckPostgres(ctx, db))
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
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))`, "tidegate sale "+sale).Scan(&led); err != nil ||
			!led {
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

// inTx is InTx with a transaction of pgx.
func (s *Store) inTx(ctx context.Context, op string, fn func(pgx.Tx) error) error {
	return wrap(op, sqldb.Repeat(func() error { return pgx.BeginFunc(ctx, s.pool, fn) }))
}

// wrap classifies errors by their SQLSTATE.
func wrap(op string, err error) error {
	var pg *pgconn.PgError
	return storage.Error("postgres: "+op, err, errors.As(err, &pg) && storage.Refused(pg.Code))
}
