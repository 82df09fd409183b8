package sqlstore

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders/internal/inspection"
)

const inspectLate = `
	SELECT 'I14', 'order ' || order_id || ' should have expired at ' || {pay_before UTC}, ''
	FROM orders WHERE sale = $1 AND status = 'confirmed' AND pay_before <= {now} - {ms $3}
	ORDER BY pay_before LIMIT $2`

// Inspect runs the queries one after the other. Changes between them can look like breaches, so the caller looks again.
func (s *Store) Inspect(ctx context.Context, sale string, late time.Duration) (in inspection.Result, err error) {
	var first, last *string // there is no min(uuid) before Postgres 18
	if err := s.db.One(ctx, `
		SELECT count(*), count(*) FILTER (WHERE status = 'confirmed' AND pay_before <= {now} AND pay_before > {now} - {ms $2}),
		       min({text order_id}), max({text order_id})
		FROM orders WHERE sale = $1`, []any{&in.Orders, &in.Expiring, &first, &last}, sale, late); err != nil {
		return in, s.wrap("inspect", err)
	}
	if err := s.db.One(ctx, `SELECT count(*), count(*) FILTER (WHERE action = 'refund') FROM payments JOIN orders USING (order_id) WHERE sale = $1`,
		[]any{&in.Captured, &in.Refunds}, sale); err != nil {
		return in, s.wrap("inspect", err)
	}
	for _, ask := range []struct {
		queries []string
		more    []any // arguments
	}{{inspection.Queries, nil}, {inspection.EventQueries, []any{first, last}}, {[]string{inspectLate}, []any{late}}} {
		for _, query := range ask.queries {
			found, err := all(ctx, s.db.Conn, query, scanBreach, append([]any{sale, inspection.MaxBreaches}, ask.more...)...)
			if err != nil {
				return in, s.wrap("inspect", err)
			}
			in.Breaches = append(in.Breaches, found...)
		}
	}
	return in, nil
}

func scanBreach(row sqldb.Row) (b inspection.Breach, err error) {
	err = row.Scan(&b.Invariant, &b.What, &b.Missing)
	return b, err
}
