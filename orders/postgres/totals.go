package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
)

// Totals counts the orders of a sale.
func (s *Store) Totals(ctx context.Context, sale string) (orders.Totals, error) {
	t := orders.Totals{Orders: make(map[orders.Status]int), Items: make(map[string]orders.ItemTotals)}
	rows, _ := s.pool.Query(ctx, `
		SELECT item, status, count(*), sum(quantity), max(accepted_at) FROM orders WHERE sale = $1 GROUP BY item, status`, sale)
	var (
		item          string
		status        orders.Status
		number, units int
		latest        time.Time
	)
	_, err := pgx.ForEachRow(rows, []any{&item, &status, &number, &units, &latest}, func() error {
		t.Add(item, status, number, units, latest)
		return nil
	})
	if err != nil {
		return t, wrap("totals", err)
	}
	err = s.pool.QueryRow(ctx, `
		SELECT count(*) FROM payments JOIN orders USING (order_id) WHERE action = 'refund' AND sale = $1`, sale).Scan(&t.Refunds)
	return t, wrap("totals", err)
}
