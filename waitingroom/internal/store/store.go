// Package store keeps the rooms of package waitingroom and their places in the tables that package migrations creates. It stores
// rows, and decides nothing: what a room and a place are, is in package waitingroom. Its errors are those of waitingroom.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/tidegate/tidegate/internal/sqldb"
)

// These are documented in package waitingroom.
var (
	ErrUnknownRoom = errors.New("waitingroom: unknown room")
	ErrUnavailable = errors.New("waitingroom: store unavailable")
)

// Store is a database. Make it with Postgres or SQLite; it is safe for concurrent use.
type Store struct{ db *sqldb.DB }

// Postgres returns a store in Postgres 13 or later.
func Postgres(db *sql.DB) *Store {
	return &Store{sqldb.Postgres(db,
		// A new room has no statistics, so Postgres takes it for one row, and any index that begins with the room for as good as
		// another. These leave no choice: for each number a range whose order only one index has, and for subjects an array of unknown
		// length for the first column of an index.
		"{of numbers}", `json_array_elements_text($2::json) AS n(value),
			LATERAL (SELECT * FROM waiting_places WHERE room = $1 AND seq >= n.value::bigint AND seq <= n.value::bigint ORDER BY seq LIMIT 1) AS p`,
		"{of lane numbers}", `json_array_elements_text($2::json) AS n(value),
			LATERAL (SELECT * FROM waiting_places WHERE room = $1 AND lane_seq >= n.value::bigint AND lane_seq <= n.value::bigint AND lane = $3
				ORDER BY lane_seq LIMIT 1) AS p`,
		"{subjects}", "= ANY (ARRAY(SELECT e->>'subject' FROM json_array_elements($3::json) AS e))",
		"{texts}", "= ANY (ARRAY(SELECT unnest($2::text[])))",
	)}
}

// SQLite returns a store in a SQLite database of this process, whose writers use one lock.
func SQLite(db *sql.DB, writing sync.Locker) *Store {
	return &Store{sqldb.SQLite(db, writing,
		"{of numbers}", "(SELECT * FROM waiting_places WHERE room = $1 AND seq IN (SELECT value FROM json_each($2))) AS p",
		"{of lane numbers}", "(SELECT * FROM waiting_places WHERE room = $1 AND lane_seq IN (SELECT value FROM json_each($2)) AND lane = $3) "+
			"AS p",
		"{subjects}", "IN (SELECT value->>'subject' FROM json_each($3))",
		"{texts}", "IN (SELECT value FROM json_each($2))",
	)}
}

// With returns the same database with words of statements replaced, as sqldb.DB.With does, for tests.
func (s *Store) With(words ...string) *Store { return &Store{s.db.With(words...)} }

// Conn makes statements, in a transaction or outside.
type Conn struct{ sql sqldb.Conn }

// Conn returns a connection outside of transactions.
func (s *Store) Conn() Conn { return Conn{s.db.Conn} }

// InTx runs fn in a transaction, which may be repeated.
func (s *Store) InTx(ctx context.Context, fn func(tx Conn) error) error {
	var of error // fn's, which may be a conflict
	err := s.db.InTx(ctx, func(tx sqldb.Conn) error {
		of = fn(Conn{tx})
		return of
	})
	if of != nil {
		return of
	}
	return Unavailable(err)
}

// each calls scan for every row of a query.
func (c Conn) each(ctx context.Context, query string, scan func(sqldb.Row) error, args ...any) error {
	return Unavailable(c.sql.Each(ctx, query, scan, args...))
}

// one scans the only row of a query.
func (c Conn) one(ctx context.Context, query string, dest []any, args ...any) error {
	return c.each(ctx, query, func(rows sqldb.Row) error { return rows.Scan(dest...) }, args...)
}

// exec runs a statement and returns how many rows it changed.
func (c Conn) exec(ctx context.Context, query string, args ...any) (int64, error) {
	n, err := c.sql.Exec(ctx, query, args...)
	return n, Unavailable(err)
}

// Now returns the time of the database's clock.
func (c Conn) Now(ctx context.Context) (now int64, err error) {
	err = c.one(ctx, `SELECT {now ms}`, []any{&now})
	return now, err
}

// Unavailable makes an error an ErrUnavailable, unless it is nil.
func Unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
