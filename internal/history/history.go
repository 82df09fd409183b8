// Package history forgets what became of bans and of logins, and what operators changed, when it is too old: it names people, or nearly so.
package history

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/sqltime"
)

const (
	pruneEvery = time.Hour
	pruneBatch = 1000 // rows of a statement, so that none is held up for long
)

// tables are those that are pruned. Each has a column id, which is unique, and an index on (at, id).
var tables = [...]string{"ban_events", "login_events", "audit_events"}

// A Pruner deletes old rows. Make it with Postgres or SQLite; it is safe for concurrent use, and any number of processes may prune at once.
// The database stays the caller's.
type Pruner struct {
	db    *sql.DB
	write sqltime.Write
	batch int
}

// Postgres returns a pruner of a database that package migrations has brought up to date.
func Postgres(db *sql.DB) *Pruner { return &Pruner{db, sqltime.Postgres, pruneBatch} }

// SQLite is Postgres for SQLite.
func SQLite(db *sql.DB) *Pruner { return &Pruner{db, sqltime.SQLite, pruneBatch} }

// Run deletes what is older than keep, now and every hour, until ctx ends. What fails is tried again an hour later.
func (p *Pruner) Run(ctx context.Context, keep time.Duration, log *slog.Logger) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		n, err := p.Prune(ctx, time.Now().Add(-keep))
		switch {
		case err != nil && ctx.Err() == nil:
			log.WarnContext(ctx, "old history is still there", "error", err)
		case n > 0:
			log.InfoContext(ctx, "old history is gone", "rows", n)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Prune deletes what happened before a time, the oldest first, and returns how much that was.
func (p *Pruner) Prune(ctx context.Context, before time.Time) (rows int64, err error) {
	for _, table := range tables {
		query := "DELETE FROM " + table + " WHERE id IN (SELECT id FROM " + table + " WHERE at < $1 ORDER BY at, id LIMIT $2)"
		for {
			res, err := p.db.ExecContext(ctx, query, p.write(before), p.batch)
			if err != nil {
				return rows, fmt.Errorf("history: prune %s: %w", table, err)
			}
			n, err := res.RowsAffected()
			if err != nil {
				return rows, fmt.Errorf("history: prune %s: %w", table, err)
			}
			rows += n
			if n < int64(p.batch) {
				break
			}
		}
	}
	return rows, nil
}
