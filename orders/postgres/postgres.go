// Package postgres keeps orders in Postgres 13 or later, in the tables that
// package migrations makes.
package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidegate/tidegate/orders"
)

// Store is an orders.Store. The zero value is not usable; New's is safe for
// concurrent use.
type Store struct {
	pool *pgxpool.Pool
	feed watermark
}

var _ orders.Store = (*Store)(nil)

// New returns a store over a pool that the caller owns.
func New(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return wrap("ping", s.pool.Ping(ctx)) }

// unlockWithin bounds the end of a leadership; a lock not given back goes with its session.
const unlockWithin = 5 * time.Second

// Lead holds a session's advisory lock while fn runs.
func (s *Store) Lead(ctx context.Context, sale string, fn func(context.Context) error) (led bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, wrap("lead", err)
	}
	defer conn.Release()
	const lock = "tidegate sale "
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, lock+sale).Scan(&led); err != nil || !led {
		return false, wrap("lead", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockWithin)
		defer cancel()
		if _, uerr := conn.Exec(ctx, `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, lock+sale); uerr != nil {
			_ = conn.Conn().Close(ctx) // the lock goes with the session
			err = errors.Join(err, wrap("stop leading", uerr))
		}
	}()
	return true, fn(ctx)
}

// inTx runs fn in one transaction.
func (s *Store) inTx(ctx context.Context, op string, fn func(pgx.Tx) error) error {
	return wrap(op, pgx.BeginFunc(ctx, s.pool, fn))
}

// wrap sorts errors by their SQLSTATE.
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
