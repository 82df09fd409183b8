package sqlite

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders/internal/inspection"
)

const inspectLate = `
	SELECT 'I14', 'order ' || order_id || ' should have expired at ' || strftime('%Y-%m-%dT%H:%M:%SZ', pay_before / 1000, 'unixepoch'), ''
	FROM orders WHERE sale = ?1 AND status = 'confirmed' AND pay_before <= ?3
	ORDER BY pay_before LIMIT ?2`

// Inspect runs the queries one after the other. Changes between them can look like breaches, so the caller looks again.
func (s *Store) Inspect(ctx context.Context, sale string, late time.Duration) (inspection.Result, error) {
	var (
		in          inspection.Result
		first, last sql.NullString
		now         = time.Now().UnixMilli()
	)
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*), count(*) FILTER (WHERE status = 'confirmed' AND pay_before <= ?2 AND pay_before > ?3), min(order_id), max(order_id)
		FROM orders WHERE sale = ?1`, sale, now, now-late.Milliseconds()).Scan(&in.Orders, &in.Expiring, &first, &last)
	if err != nil {
		return in, wrap("inspect", err)
	}
	err = s.db.QueryRowContext(ctx, `
		SELECT count(*), count(*) FILTER (WHERE action = 'refund') FROM payments JOIN orders USING (order_id) WHERE sale = ?`, sale).
		Scan(&in.Captured, &in.Refunds)
	if err != nil {
		return in, wrap("inspect", err)
	}
	note := func(rows *sql.Rows) error {
		var b inspection.Breach
		err := rows.Scan(&b.Invariant, &b.What, &b.Missing)
		in.Breaches = append(in.Breaches, b)
		return err
	}
	for _, query := range inspection.Queries {
		if err := each(ctx, s.db, note, strings.ReplaceAll(query, "$", "?"), sale, inspection.MaxBreaches); err != nil {
			return in, wrap("inspect", err)
		}
	}
	for _, query := range inspection.EventQueries {
		if err := each(ctx, s.db, note, strings.ReplaceAll(query, "$", "?"), sale, inspection.MaxBreaches, first, last); err != nil {
			return in, wrap("inspect", err)
		}
	}
	return in, wrap("inspect", each(ctx, s.db, note, inspectLate, sale, inspection.MaxBreaches, now-late.Milliseconds()))
}
