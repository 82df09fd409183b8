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

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/migrations"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Store is a storage.Store. The zero value is not usable; use New. Safe for concurrent use.
type Store struct {
	common
	sql       *sql.DB
	db        *sqldb.DB
	writing   sync.Mutex
	leading   sync.Map // sale → struct{}
	processes processes
}

type common = sqlstore.Store

var _ storage.Store = (*Store)(nil)

// Options for the database's connections: a committed transaction is on disk, readers do not wait for the writer, and a writing
// transaction takes the lock at its start.
const Options = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_txlock=immediate"

// New returns a store over a database that the caller owns, opened with Options.
func New(db *sql.DB) *Store {
	s := &Store{
		sql:       db,
		processes: processes{beats: make(map[string]int), selves: make(map[string]liveness.Self), acks: make(map[string]map[string]int64)},
	}
	words := sqlstore.Words{
		NextRevision: "(SELECT coalesce(max(revision), 0) + 1 FROM sales)", // there is one writer
		NoUnits:      "'[]'",
		Payload:      "CAST(payload AS TEXT)",
		UTC:          "strftime('%Y-%m-%dT%H:%M:%SZ', pay_before / 1000, 'unixepoch')",
		Standby:      "false",
	}
	s.db = sqldb.SQLite(db, &s.writing, words.Pairs()...)
	s.common = sqlstore.New(s.db, wrap)
	return s
}

// Writing serializes the writers of this process, which would otherwise poll for SQLite's lock. Other stores in the same database
// use it too.
func (s *Store) Writing() sync.Locker { return &s.writing }

// Ping returns an error unless the database answers.
func (s *Store) Ping(ctx context.Context) error { return wrap("ping", s.sql.PingContext(ctx)) }

// CheckSchema compares the database with package migrations.
func (s *Store) CheckSchema(ctx context.Context) error {
	return sqlstore.SchemaError(&s.common, migrations.CheckSQLite(ctx, s.sql))
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
func (s *Store) inTx(ctx context.Context, op string, fn func(sqldb.Conn) error) error {
	return wrap(op, s.db.InTx(ctx, fn))
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
	return storage.Error("sqlite: "+op, err, refused)
}
