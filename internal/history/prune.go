package history

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

const (
	pruneEvery = time.Hour
	pruneBatch = 1000 // rows of a statement, so that none is held up for long
)

// tables are those that are pruned. Each has a column id, which is unique, and an index on (at, id).
var tables = [...]string{"ban_events", "login_events", "audit_events"}

// Run deletes what is older than keep, now and every hour, until ctx ends. Any number of processes may. What fails is tried again
// an hour later.
func (h *History) Run(ctx context.Context, keep time.Duration, log *slog.Logger) error {
	return periodic.Until(ctx, pruneEvery, func() bool {
		n, err := h.Prune(ctx, time.Now().Add(-keep))
		switch {
		case err != nil && ctx.Err() == nil:
			log.WarnContext(ctx, "old history is still there", "error", err)
		case n > 0:
			log.InfoContext(ctx, "old history is gone", "rows", n)
		}
		return false
	})
}

// Prune deletes what happened before a time, the oldest first, and returns how much that was.
func (h *History) Prune(ctx context.Context, before time.Time) (rows int64, err error) {
	for _, table := range tables {
		for {
			n, err := h.pruneSome(ctx, table, before)
			if rows += n; err != nil {
				return rows, err
			}
			if n < int64(h.batch) {
				break
			}
		}
	}
	return rows, nil
}

// pruneSome is Prune for a batch of one table.
func (h *History) pruneSome(ctx context.Context, table string, before time.Time) (int64, error) {
	n, err := h.db.Exec(ctx, "DELETE FROM "+table+" WHERE id IN (SELECT id FROM "+table+" WHERE at < $1 ORDER BY at, id LIMIT $2)", before,
		h.batch)
	if err != nil {
		return 0, fmt.Errorf("history: prune %s: %w", table, err)
	}
	return n, nil
}
