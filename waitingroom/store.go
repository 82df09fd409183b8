package waitingroom

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tidegate/tidegate/internal/transaction"
)

// Store keeps rooms and places in the tables that package migrations creates. Make it with Postgres or SQLite; it is safe for concurrent
// use. The caller closes the database.
type Store struct {
	db      *sql.DB
	dialect *strings.Replacer
	writing sync.Locker // SQLite has one writer, and would poll for its lock; nil: not needed
}

// Postgres returns a store in Postgres 13 or later.
func Postgres(db *sql.DB) *Store {
	return &Store{db: db, dialect: inPostgres("(extract(epoch FROM clock_timestamp()) * 1000)::bigint")}
}

// SQLite returns a store in a SQLite database of this process, whose transactions lock it at their start. The writers of the process use one
// lock, such as that of the store of orders.
func SQLite(db *sql.DB, writing sync.Locker) *Store {
	return &Store{db: db, dialect: inSQLite("CAST(unixepoch('subsec') * 1000 AS INTEGER)"), writing: writing}
}

// inPostgres returns the dialect of Postgres; now is the database's clock in Unix ms, more are further pairs of old and new text.
func inPostgres(now string, more ...string) *strings.Replacer {
	return strings.NewReplacer(append([]string{
		"{now}", now,
		"{unlocked}", "FOR UPDATE SKIP LOCKED",
		"{joiners}", "json_to_recordset($3::json) AS j(seq bigint, lane text, lane_seq bigint, subject text, account text, quantity integer, again integer)",
		"{turns}", "json_to_recordset($3::json) AS j(subject text, position bigint, quantity integer)",
		// A new room has no statistics, so Postgres takes it for one row, and any index that begins with the room for as good as another. These leave
		// no choice: an array for the first column of an index, and for each number a range whose order only one index has.
		"{texts}", "= ANY (ARRAY(SELECT json_array_elements_text($2::json)))",
		"{numbers}", "= ANY (ARRAY(SELECT json_array_elements_text($3::json)::bigint))",
		"{subjects}", "= ANY (ARRAY(SELECT e->>'subject' FROM json_array_elements($3::json) AS e))",
		"{of numbers}", `json_array_elements_text($2::json) AS n(value),
			LATERAL (SELECT * FROM waiting_places WHERE room = $1 AND seq >= n.value::bigint AND seq <= n.value::bigint ORDER BY seq LIMIT 1) AS p`,
		"{of lane numbers}", `json_array_elements_text($2::json) AS n(value),
			LATERAL (SELECT * FROM waiting_places WHERE room = $1 AND lane_seq >= n.value::bigint AND lane_seq <= n.value::bigint AND lane = $3
				ORDER BY lane_seq LIMIT 1) AS p`,
	}, more...)...)
}

func inSQLite(now string, more ...string) *strings.Replacer {
	return strings.NewReplacer(append([]string{
		"$", "?",
		"{now}", now,
		"{unlocked}", "", // there is one writer
		"{joiners}", "(SELECT value->>'seq' AS seq, value->>'lane' AS lane, value->>'lane_seq' AS lane_seq, value->>'subject' AS subject, value->>'account' AS account, value->>'quantity' AS quantity, value->>'again' AS again FROM json_each(?3)) AS j",
		"{turns}", "(SELECT value->>'subject' AS subject, value->>'position' AS position, value->>'quantity' AS quantity FROM json_each(?3)) AS j",
		"{texts}", "IN (SELECT value FROM json_each(?2))",
		"{numbers}", "IN (SELECT value FROM json_each(?3))",
		"{subjects}", "IN (SELECT value->>'subject' FROM json_each(?3))",
		"{of numbers}", "(SELECT * FROM waiting_places WHERE room = ?1 AND seq IN (SELECT value FROM json_each(?2))) AS p",
		"{of lane numbers}", "(SELECT * FROM waiting_places WHERE room = ?1 AND lane_seq IN (SELECT value FROM json_each(?2)) AND lane = ?3) AS p",
	}, more...)...)
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// inTx runs fn in a transaction, which is repeated as package transaction describes.
func (s *Store) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	if s.writing != nil {
		s.writing.Lock()
		defer s.writing.Unlock()
	}
	var of error // fn's, which may be a refusal
	err := transaction.SQL(ctx, s.db, func(tx *sql.Tx) error {
		of = fn(tx)
		return of
	})
	if of != nil {
		return of
	}
	return unavailable(err)
}

// each calls scan for every row of a query.
func (s *Store) each(ctx context.Context, q querier, query string, scan func(*sql.Rows) error, args ...any) error {
	rows, err := q.QueryContext(ctx, s.dialect.Replace(query), args...)
	if err != nil {
		return unavailable(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return unavailable(err)
		}
	}
	return unavailable(rows.Err())
}

// exec runs a statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, q querier, query string, args ...any) (int64, error) {
	result, err := q.ExecContext(ctx, s.dialect.Replace(query), args...)
	if err != nil {
		return 0, unavailable(err)
	}
	n, err := result.RowsAffected()
	return n, unavailable(err)
}

func unavailable(err error) error {
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// encode returns a list for one of the dialect's words, or for a column.
func encode(list any) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // finite numbers and strings
	}
	return string(text)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
