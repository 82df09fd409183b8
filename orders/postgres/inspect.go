package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders/internal/inspection"
)

const inspectLate = `
	SELECT 'I14', 'order ' || order_id || ' should have expired at ' || to_char(pay_before AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ''
	FROM orders WHERE sale = $1 AND status = 'confirmed' AND pay_before <= now() - $3::interval
	ORDER BY pay_before LIMIT $2`

// Inspect runs the queries one after the other. Changes between them can look like breaches, so the caller looks again.
func (s *Store) Inspect(ctx context.Context, sale string, late time.Duration) (inspection.Result, error) {
	var (
		in          inspection.Result
		first, last *string // there is no min(uuid) before Postgres 18
	)
	err := s.pool.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE status = 'confirmed' AND pay_before <= now() AND pay_before > now() - $2::interval),
		       min(order_id::text COLLATE "C"), max(order_id::text COLLATE "C")
		FROM orders WHERE sale = $1`, sale, late).Scan(&in.Orders, &in.Expiring, &first, &last)
	if err != nil {
		return in, wrap("inspect", err)
	}
	err = s.pool.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE action = 'refund') FROM payments JOIN orders USING (order_id) WHERE sale = $1`, sale).
		Scan(&in.Captured, &in.Refunds)
	if err != nil {
		return in, wrap("inspect", err)
	}
	ask := func(query string, args ...any) error {
		rows, _ := s.pool.Query(ctx, query, args...)
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[inspection.Breach])
		in.Breaches = append(in.Breaches, found...)
		return err
	}
	for _, query := range inspection.Queries {
		if err := ask(query, sale, inspection.MaxBreaches); err != nil {
			return in, wrap("inspect", err)
		}
	}
	for _, query := range inspection.EventQueries {
		if err := ask(query, sale, inspection.MaxBreaches, first, last); err != nil {
			return in, wrap("inspect", err)
		}
	}
	return in, wrap("inspect", ask(inspectLate, sale, inspection.MaxBreaches, late))
}
