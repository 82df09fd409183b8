// Package audit keeps in the database what operators changed: who, what, when, and what came of it.
package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/sqltime"
)

// ErrUnavailable is in the errors of reading from a database that does not answer.
var ErrUnavailable = errors.New("audit: unavailable")

// An Event is one change that an operator asked for.
type Event struct {
	ID        string
	At        time.Time
	Actor     string // name of the token, or "local" without tokens
	Action    string // id of the operation, such as pause-sale
	Target    string // path of the request
	Detail    string // the request, as JSON
	Outcome   string // "done", or the reason why not
	RequestID string
}

// A Log is all events. Make it with Postgres or SQLite; it is safe for concurrent use. The database stays the caller's.
type Log struct {
	db    *sql.DB
	write sqltime.Write
}

// Postgres returns the log in a database that package migrations has brought up to date.
func Postgres(db *sql.DB) *Log { return &Log{db, sqltime.Postgres} }

// SQLite is Postgres for SQLite. Its times are to the millisecond.
func SQLite(db *sql.DB) *Log { return &Log{db, sqltime.SQLite} }

// Record keeps an event.
func (l *Log) Record(ctx context.Context, e Event) error {
	_, err := l.db.ExecContext(ctx, `
		INSERT INTO audit_events (id, at, actor, action, target, detail, outcome, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		e.ID, l.write(e.At), e.Actor, e.Action, e.Target, e.Detail, e.Outcome, e.RequestID)
	if err != nil {
		return fmt.Errorf("audit: record %s: %w", e.Action, err)
	}
	return nil
}

// List returns up to limit events, the newest first: those after the one with the ID after, or from the newest if that is empty. An ID that
// is not known has nothing after it. The error may be ErrUnavailable.
func (l *Log) List(ctx context.Context, after string, limit int) ([]Event, error) {
	const columns = `SELECT id, at, actor, action, target, detail, outcome, request_id FROM audit_events`
	query, args := columns+` ORDER BY at DESC, id DESC LIMIT $1`, []any{limit}
	if after != "" {
		query = columns + ` WHERE (at, id) < (SELECT at, id FROM audit_events WHERE id = $2) ORDER BY at DESC, id DESC LIMIT $1`
		args = append(args, after)
	}
	rows, err := l.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%w: list: %w", ErrUnavailable, err)
	}
	defer rows.Close()
	var events []Event
	for rows.Next() {
		var e Event
		if err := rows.Scan(&e.ID, (*sqltime.Time)(&e.At), &e.Actor, &e.Action, &e.Target, &e.Detail, &e.Outcome, &e.RequestID); err != nil {
			return nil, fmt.Errorf("audit: list: %w", err)
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: list: %w", ErrUnavailable, err)
	}
	return events, nil
}
