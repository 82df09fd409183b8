package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// Totals counts the orders of a sale.
func (s *Store) Totals(ctx context.Context, sale string) (orders.Totals, error) {
	t := orders.Totals{Orders: make(map[orders.Status]int), Items: make(map[string]orders.ItemTotals)}
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		var (
			item          string
			status        orders.Status
			number, units int
			latest        int64
		)
		if err := rows.Scan(&item, &status, &number, &units, &latest); err != nil {
			return err
		}
		t.Add(item, status, number, units, time.UnixMilli(latest))
		return nil
	}, `SELECT item, status, count(*), sum(quantity), max(accepted_at) FROM orders WHERE sale = ? GROUP BY item, status`, sale)
	if err != nil {
		return t, wrap("totals", err)
	}
	err = s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM payments JOIN orders USING (order_id) WHERE action = 'refund' AND sale = ?`, sale).Scan(&t.Refunds)
	return t, wrap("totals", err)
}
