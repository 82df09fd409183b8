// Package sqlstore is a store of rooms in the tables that package migrations creates, with the same statements for Postgres and SQLite.
package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// Store is a database. Make it with Postgres or SQLite; it is safe for concurrent use.
type Store struct {
	Conn // outside of transactions
	db   *sqldb.DB
}

var _ store.Store = (*Store)(nil)

func of(db *sqldb.DB) *Store { return &Store{Conn{db.Conn}, db} }

// Postgres returns a store in Postgres 13 or later.
func Postgres(db *sql.DB) *Store {
	return of(sqldb.Postgres(db,
		// The transactions that wrote the two rows last.
		"{version}", "r.xmin::text || ' ' || t.xmin::text",
		// A new room has no statistics, so Postgres takes it for one row, and any index that begins with the room for as good as
		// another. These make the right index the cheapest: for each number a range whose order only one index has, and for subjects an
		// array of unknown length for the first column of an index. A small table is read whole all the same, so these are replanned.
		"{of numbers}", `json_array_elements_text($2::json) AS n(value),
			LATERAL (SELECT * FROM waiting_places WHERE room = $1 AND seq >= n.value::bigint AND seq <= n.value::bigint ORDER BY seq LIMIT 1) AS p`,
		"{of lane numbers}", `json_array_elements_text($2::json) AS n(value),
			LATERAL (SELECT * FROM waiting_places WHERE room = $1 AND lane_seq >= n.value::bigint AND lane_seq <= n.value::bigint AND lane = $3
				ORDER BY lane_seq LIMIT 1) AS p`,
		"{subjects}", "= ANY (ARRAY(SELECT e->>'subject' FROM json_array_elements($3::json) AS e))",
		"{texts}", "= ANY (ARRAY(SELECT unnest($2::text[])))",
	))
}

// SQLite returns a store in a SQLite database of this process, whose writers use one lock.
func SQLite(db *sql.DB, writing sync.Locker) *Store {
	return of(sqldb.SQLite(db, writing,
		// Always another one, so that all rooms are read: SQLite shows no change of a row.
		"{version}", "hex(randomblob(8))",
		"{of numbers}", "(SELECT * FROM waiting_places WHERE room = $1 AND seq IN (SELECT value FROM json_each($2))) AS p",
		"{of lane numbers}", "(SELECT * FROM waiting_places WHERE room = $1 AND lane_seq IN (SELECT value FROM json_each($2)) AND lane = $3) "+
			"AS p",
		"{subjects}", "IN (SELECT value->>'subject' FROM json_each($3))",
		"{texts}", "IN (SELECT value FROM json_each($2))",
	))
}

// With returns the same database with words of statements replaced, as sqldb.DB.With does, for tests.
func (s *Store) With(words ...string) *Store { return of(s.db.With(words...)) }

// Conn makes statements, in a transaction or outside.
type Conn struct{ sql sqldb.Conn }

// InTx runs fn in a transaction, which may be repeated.
func (s *Store) InTx(ctx context.Context, fn func(tx store.Tx) error) error {
	var answer error // fn's, which may be a conflict
	err := s.db.InTx(ctx, func(tx sqldb.Conn) error {
		answer = fn(Conn{tx})
		return answer
	})
	if answer != nil {
		return answer
	}
	return store.Unavailable(err)
}

// replanned is for statements that look for places; see sqldb.Conn.Replanned.
func (c Conn) replanned() Conn { return Conn{c.sql.Replanned()} }

// each calls scan for every row of a query.
func (c Conn) each(ctx context.Context, query string, scan func(sqldb.Row) error, args ...any) error {
	return store.Unavailable(c.sql.Each(ctx, query, scan, args...))
}

// one scans the only row of a query.
func (c Conn) one(ctx context.Context, query string, dest []any, args ...any) error {
	return c.each(ctx, query, func(rows sqldb.Row) error { return rows.Scan(dest...) }, args...)
}

// exec runs a statement and returns how many rows it changed.
func (c Conn) exec(ctx context.Context, query string, args ...any) (int64, error) {
	n, err := c.sql.Exec(ctx, query, args...)
	return n, store.Unavailable(err)
}

// Now returns the time of the database's clock.
func (c Conn) Now(ctx context.Context) (now int64, err error) {
	err = c.one(ctx, `SELECT {now ms}`, []any{&now})
	return now, err
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
