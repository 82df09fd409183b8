// Package banlog keeps the history of bans in the database: who was banned or let in again, when, for how long and why.
package banlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/sqltime"
)

// ErrUnavailable is in the errors of reading from a database that does not answer.
var ErrUnavailable = errors.New("banlog: unavailable")

// A Log is the history of bans. Make it with Postgres or SQLite; it is safe for concurrent use. The database stays the caller's.
type Log struct {
	db    *sql.DB
	write sqltime.Write
}

var _ admission.BanHistory = (*Log)(nil)

// Postgres returns the history in a database that package migrations has brought up to date.
func Postgres(db *sql.DB) *Log {
	return &Log{db, sqltime.Postgres}
}

// SQLite is Postgres for SQLite. Its times are to the millisecond.
func SQLite(db *sql.DB) *Log {
	return &Log{db, sqltime.SQLite}
}

// Record implements admission.BanHistory: all events are kept, or none, and one that is kept already is not kept again.
func (l *Log) Record(ctx context.Context, events []admission.BanEvent) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("banlog: record: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	for i := range events {
		e := &events[i]
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO ban_events (id, at, lifted, kind, value, reason, rule, since, until, times)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING`,
			e.ID, l.write(e.At), e.Lifted, string(e.Kind), e.Value, e.Reason, e.Rule, l.write(e.Since), l.write(e.Until), e.Times); err != nil {
			return fmt.Errorf("banlog: record %s: %w", e.ID, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("banlog: record: %w", err)
	}
	return nil
}

// List returns up to limit events, the newest first: those after the one with the ID after, or from the newest if that is empty. An ID
// that is not known has nothing after it. The error may be ErrUnavailable.
func (l *Log) List(ctx context.Context, after string, limit int) ([]admission.BanEvent, error) {
	const columns = `SELECT id, at, lifted, kind, value, reason, rule, since, until, times FROM ban_events`
	query, args := columns+` ORDER BY at DESC, id DESC LIMIT $1`, []any{limit}
	if after != "" {
		query = columns + ` WHERE (at, id) < (SELECT at, id FROM ban_events WHERE id = $2) ORDER BY at DESC, id DESC LIMIT $1`
		args = append(args, after)
	}
	rows, err := l.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%w: list: %w", ErrUnavailable, err)
	}
	defer rows.Close()
	var events []admission.BanEvent
	for rows.Next() {
		var e admission.BanEvent
		if err := rows.Scan(&e.ID, (*sqltime.Time)(&e.At), &e.Lifted, &e.Kind, &e.Value, &e.Reason, &e.Rule,
			(*sqltime.Time)(&e.Since), (*sqltime.Time)(&e.Until), &e.Times); err != nil {
			return nil, fmt.Errorf("banlog: list: %w", err)
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: list: %w", ErrUnavailable, err)
	}
	return events, nil
}
