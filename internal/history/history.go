// Package history keeps events of bans and logins and the audit log in the database. It deletes old entries, because they contain personal
// data.
package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/sqldb"
)

// ErrUnavailable is in the errors of reading from a database that does not answer.
var ErrUnavailable = errors.New("history: unavailable")

// A History is all events in a database, which stays the caller's. Make it with Postgres or SQLite; it is safe for concurrent use.
type History struct {
	db    *sqldb.DB
	batch int // rows that Prune deletes at a time
}

// Postgres returns the history in a database that package migrations has brought up to date.
func Postgres(db *sql.DB) *History { return &History{sqldb.Postgres(db), pruneBatch} }

// SQLite is Postgres for SQLite. Its times are to the millisecond.
func SQLite(db *sql.DB) *History { return &History{sqldb.SQLite(db, nil), pruneBatch} }

// record keeps n events, or none.
func (h *History) record(ctx context.Context, n int, insert func(tx sqldb.Conn, i int) error) error {
	err := h.db.InTx(ctx, func(tx sqldb.Conn) error {
		for i := range n {
			if err := insert(tx, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("history: record: %w", err)
	}
	return nil
}

// A page is what is asked of a table: up to limit events, the newest first, those after the one with the id after, or from the newest if
// that is empty. An id that is not known has nothing after it.
type page struct {
	columns, table string
	where          string // what else must be true, with $2 for with
	with           []any
	after          string
	limit          int
}

func list[T any](ctx context.Context, h *History, p page, fields func(*T) []any) ([]T, error) {
	query, args := "SELECT "+p.columns+" FROM "+p.table+" WHERE true"+p.where, append([]any{p.limit}, p.with...)
	if p.after != "" {
		args = append(args, p.after)
		query += fmt.Sprintf(" AND (at, id) < (SELECT at, id FROM %s WHERE id = $%d)", p.table, len(args))
	}
	return read(ctx, h, query+" ORDER BY at DESC, id DESC LIMIT $1", args, fields)
}

// read returns the rows of a query, each scanned into the fields of a T.
func read[T any](ctx context.Context, h *History, query string, args []any, fields func(*T) []any) ([]T, error) {
	var (
		all        []T
		unreadable error
	)
	err := h.db.Each(ctx, query, func(row sqldb.Row) error {
		var one T
		unreadable = row.Scan(fields(&one)...)
		all = append(all, one)
		return unreadable
	}, args...)
	switch {
	case unreadable != nil:
		return nil, fmt.Errorf("history: %w", unreadable)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return all, nil
}
