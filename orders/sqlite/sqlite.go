// Package sqlite stores orders in SQLite, for the embedded server: one process, one writer. It behaves like package postgres;
// one suite tests both.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tidegate/tidegate/internal/transaction"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

// Store is an orders.Store. The zero value is not usable; use New. Safe for concurrent use.
type Store struct {
	db *sql.DB
	// writing serializes the writers of this process, which would otherwise poll for SQLite's lock.
	writing   sync.Mutex
	leading   sync.Map // sale → struct{}
	processes processes
}

var _ orders.Store = (*Store)(nil)

// Options for the database's connections: a committed transaction is on disk, readers do not wait for the writer, and a writing
// transaction takes the lock at its start.
const Options = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_txlock=immediate"

// New returns a store over a database that the caller owns, opened with Options.
func New(db *sql.DB) *Store {
	return &Store{db: db, processes: processes{beats: make(map[string]int), selves: make(map[string]liveness.Self), acks: make(map[string]map[string]int64)}}
}

// Writing serializes the writers of this process. Other stores in the same database use it too.
func (s *Store) Writing() sync.Locker { return &s.writing }

// Ping returns an error unless the database answers.
func (s *Store) Ping(ctx context.Context) error { return wrap("ping", s.db.PingContext(ctx)) }

// CheckSchema compares the database with package migrations.
func (s *Store) CheckSchema(ctx context.Context) error {
	err := migrations.CheckSQLite(ctx, s.db)
	var incomplete *migrations.IncompleteError
	if errors.Is(err, migrations.ErrOutdated) || errors.As(err, &incomplete) {
		return err
	}
	return wrap("check the schema", err)
}

// Lead excludes other leaders in this process; no other process has the database open.
func (s *Store) Lead(ctx context.Context, sale string, fn func(context.Context) error) (bool, error) {
	if _, led := s.leading.LoadOrStore(sale, struct{}{}); led {
		return false, nil
	}
	defer s.leading.Delete(sale)
	return true, fn(ctx)
}

// inTx runs fn in one writing transaction.
func (s *Store) inTx(ctx context.Context, op string, fn func(*sql.Tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return wrap(op, transaction.SQL(ctx, s.db, fn))
}

// exec runs one statement in its own transaction.
func (s *Store) exec(ctx context.Context, op, statement string, args ...any) error {
	return s.inTx(ctx, op, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	})
}

// each runs a query and calls scan for every row.
func each(ctx context.Context, q querier, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
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

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// wrap classifies errors by their primary code.
func wrap(op string, err error) error {
	var se *sqlite.Error
	refused := false
	if errors.As(err, &se) {
		switch se.Code() & 0xff {
		case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_RANGE:
			refused = true
		}
	}
	return orders.StoreError("sqlite: "+op, err, refused)
}
