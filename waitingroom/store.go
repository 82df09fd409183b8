package waitingroom

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/tidegate/tidegate/internal/sqldb"
)

// Store keeps rooms and places in the tables that package migrations creates. Make it with Postgres or SQLite; it is safe for concurrent
// use. The caller closes the database.
type Store struct{ db *sqldb.DB }

// Postgres returns a store in Postgres 13 or later.
func Postgres(db *sql.DB) *Store {
	return &Store{sqldb.Postgres(db,
		// A new room has no statistics, so Postgres takes it for one row, and any index that begins with the room for as good as another. These leave
		// no choice: for each number a range whose order only one index has, and for subjects an array of unknown length for the first column of an
		// index.
		"{of numbers}", `json_array_elements_text($2::json) AS n(value),
			LATERAL (SELECT * FROM waiting_places WHERE room = $1 AND seq >= n.value::bigint AND seq <= n.value::bigint ORDER BY seq LIMIT 1) AS p`,
		"{of lane numbers}", `json_array_elements_text($2::json) AS n(value),
			LATERAL (SELECT * FROM waiting_places WHERE room = $1 AND lane_seq >= n.value::bigint AND lane_seq <= n.value::bigint AND lane = $3
				ORDER BY lane_seq LIMIT 1) AS p`,
		"{subjects}", "= ANY (ARRAY(SELECT e->>'subject' FROM json_array_elements($3::json) AS e))",
		"{texts}", "= ANY (ARRAY(SELECT unnest($2::text[])))",
	)}
}

// SQLite returns a store in a SQLite database of this process, whose transactions lock it at their start. The writers of the process use one
// lock, such as that of the store of orders.
func SQLite(db *sql.DB, writing sync.Locker) *Store {
	return &Store{sqldb.SQLite(db, writing,
		"{of numbers}", "(SELECT * FROM waiting_places WHERE room = $1 AND seq IN (SELECT value FROM json_each($2))) AS p",
		"{of lane numbers}", "(SELECT * FROM waiting_places WHERE room = $1 AND lane_seq IN (SELECT value FROM json_each($2)) AND lane = $3) AS p",
		"{subjects}", "IN (SELECT value->>'subject' FROM json_each($3))",
		"{texts}", "IN (SELECT value FROM json_each($2))",
	)}
}

// inTx runs fn in a transaction, which may be repeated.
func (s *Store) inTx(ctx context.Context, fn func(sqldb.Conn) error) error {
	var of error // fn's, which may be an ErrConflict
	err := s.db.InTx(ctx, func(tx sqldb.Conn) error {
		of = fn(tx)
		return of
	})
	if of != nil {
		return of
	}
	return unavailable(err)
}

// each calls scan for every row of a query.
func each(ctx context.Context, c sqldb.Conn, query string, scan func(sqldb.Row) error, args ...any) error {
	return unavailable(c.Each(ctx, query, scan, args...))
}

// exec runs a statement and returns how many rows it changed.
func exec(ctx context.Context, c sqldb.Conn, query string, args ...any) (int64, error) {
	n, err := c.Exec(ctx, query, args...)
	return n, unavailable(err)
}

func unavailable(err error) error {
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
