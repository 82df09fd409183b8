package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// record adds the event of a change, in the transaction of the change.
func record(ctx context.Context, tx *sql.Tx, e orders.Event) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO order_events (at, order_id, status, reason, action, reference) VALUES (?, ?, ?, ?, ?, ?)`,
		time.Now().UnixMilli(), e.OrderID.String(), e.Status, e.Reason, e.Action, e.Reference)
	return err
}

// Events reads what is committed: there is one writer, so numbers and commits have the same order.
func (s *Store) Events(ctx context.Context, after int64, limit int) ([]orders.Event, error) {
	var list []orders.Event
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		var (
			e         orders.Event
			at        int64
			id, units string
		)
		if err := rows.Scan(&e.Seq, &at, &id, &e.Sale, &e.Item, &e.Buyer, &e.Quantity, &units, &e.Status, &e.Reason, &e.Action, &e.Reference); err != nil {
			return err
		}
		e.At = time.UnixMilli(at).UTC()
		if err := json.Unmarshal([]byte(units), &e.Units); err != nil {
			return err
		}
		err := e.OrderID.UnmarshalText([]byte(id))
		list = append(list, e)
		return err
	}, `
		SELECT seq, at, order_id, sale, item, buyer, quantity, units, e.status, e.reason, action, reference
		FROM order_events e JOIN orders USING (order_id) WHERE seq > ? ORDER BY seq LIMIT ?`, after, limit)
	return list, wrap("events", err)
}
