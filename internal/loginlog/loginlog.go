// Package loginlog keeps the history of failed logins in the database: what a rule did, since when and until when. It names nobody.
package loginlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/sqltime"
	"github.com/tidegate/tidegate/login"
)

// ErrUnavailable is in the errors of reading from a database that does not answer.
var ErrUnavailable = errors.New("loginlog: unavailable")

// A Log is the history of failed logins. Make it with Postgres or SQLite; it is safe for concurrent use. The database stays the caller's.
type Log struct {
	db    *sql.DB
	write sqltime.Write
}

var _ login.History = (*Log)(nil)

// Postgres returns the history in a database that package migrations has brought up to date.
func Postgres(db *sql.DB) *Log {
	return &Log{db, sqltime.Postgres}
}

// SQLite is Postgres for SQLite. Its times are to the millisecond.
func SQLite(db *sql.DB) *Log {
	return &Log{db, sqltime.SQLite}
}

// Record implements login.History: all events are kept, or none, and one that is kept already is not kept again.
func (l *Log) Record(ctx context.Context, events []login.Event) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("loginlog: record: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	for i := range events {
		e := &events[i]
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO login_events (id, at, rule, count, action, factor, name_reference, ip_masked, until, times, shadow)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING`,
			e.ID, l.write(e.At), e.Rule, string(e.Count), string(e.Action), e.Factor, e.Name, e.IP, l.orNull(e.Until), e.Times, e.Shadow,
		); err != nil {
			return fmt.Errorf("loginlog: record %s: %w", e.ID, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("loginlog: record: %w", err)
	}
	return nil
}

func (l *Log) orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return l.write(t)
}

// List returns up to limit events of a reference to a name, or of all if that is empty, the newest first: those after the one with the ID
// after, or from the newest if that is empty. An ID that is not known has nothing after it. The error may be ErrUnavailable.
func (l *Log) List(ctx context.Context, reference, after string, limit int) ([]login.Event, error) {
	query, args := `SELECT id, at, rule, count, action, factor, name_reference, ip_masked, until, times, shadow FROM login_events WHERE true`, []any{limit}
	if reference != "" {
		args = append(args, reference)
		query += fmt.Sprintf(` AND name_reference <> '' AND name_reference = $%d`, len(args)) // the former leads to the index
	}
	if after != "" {
		args = append(args, after)
		query += fmt.Sprintf(` AND (at, id) < (SELECT at, id FROM login_events WHERE id = $%d)`, len(args))
	}
	rows, err := l.db.QueryContext(ctx, query+` ORDER BY at DESC, id DESC LIMIT $1`, args...)
	if err != nil {
		return nil, fmt.Errorf("%w: list: %w", ErrUnavailable, err)
	}
	defer rows.Close()
	var events []login.Event
	for rows.Next() {
		var e login.Event
		if err := rows.Scan(&e.ID, (*sqltime.Time)(&e.At), &e.Rule, &e.Count, &e.Action, &e.Factor, &e.Name, &e.IP,
			(*sqltime.Time)(&e.Until), &e.Times, &e.Shadow); err != nil {
			return nil, fmt.Errorf("loginlog: list: %w", err)
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: list: %w", ErrUnavailable, err)
	}
	return events, nil
}

// BannedFor returns the factors whose failures got addresses banned that look like ip when masked. The error may be ErrUnavailable.
func (l *Log) BannedFor(ctx context.Context, ip string) ([]string, error) {
	rows, err := l.db.QueryContext(ctx, `SELECT DISTINCT factor FROM login_events WHERE ip_masked = $1 AND action = 'ban'`, ip)
	if err != nil {
		return nil, fmt.Errorf("%w: banned for: %w", ErrUnavailable, err)
	}
	defer rows.Close()
	var factors []string
	for rows.Next() {
		var factor string
		if err := rows.Scan(&factor); err != nil {
			return nil, fmt.Errorf("loginlog: banned for: %w", err)
		}
		factors = append(factors, factor)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: banned for: %w", ErrUnavailable, err)
	}
	return factors, nil
}
