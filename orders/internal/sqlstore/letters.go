package sqlstore

import (
	"context"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// AddDeadLetter keeps a reservation as a dead letter, once.
func (s *Store) AddDeadLetter(ctx context.Context, r orders.Reservation, reason string) error {
	_, err := s.db.Exec(ctx, `
		INSERT INTO dead_letters (order_id, sale, item, payload, reason, created_at) VALUES ($1, $2, $3, $4, $5, {now}) ON CONFLICT DO NOTHING`,
		[16]byte(r.ID), r.Sale, r.Item, payload(&r), reason)
	return s.wrap("add a dead letter", err)
}

func scanLetter(row sqldb.Row) (d orders.DeadLetter, err error) {
	var payload []byte
	if err := row.Scan(&payload, &d.Reason, (*sqldb.Time)(&d.At)); err != nil {
		return d, err
	}
	d.Reservation, err = orders.ParseReservation(payload)
	return d, err
}

// DeadLetters lists dead letters sorted by id.
func (s *Store) DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error) {
	list, err := all(ctx, s.db.Conn, `
		SELECT payload, reason, created_at FROM dead_letters d
		WHERE order_id > $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id AND status <> 'rejected')
		ORDER BY order_id LIMIT $2`, scanLetter, [16]byte(after), limit)
	return list, s.wrap("dead letters", err)
}

// DeadLetter returns one, even if its order is stored by now.
func (s *Store) DeadLetter(ctx context.Context, id orders.ID) (orders.DeadLetter, error) {
	list, err := all(ctx, s.db.Conn, `SELECT payload, reason, created_at FROM dead_letters WHERE order_id = $1`, scanLetter, [16]byte(id))
	switch {
	case err != nil:
		return orders.DeadLetter{}, s.wrap("dead letter", err)
	case len(list) == 0:
		return orders.DeadLetter{}, orders.ErrUnknownOrder
	}
	return list[0], nil
}

// DeleteDeadLetter deletes a dead letter.
func (s *Store) DeleteDeadLetter(ctx context.Context, id orders.ID, back []storage.Return) error {
	return s.inTx(ctx, "delete a dead letter", func(tx sqldb.Conn) error {
		for _, r := range back {
			if _, err := tx.Exec(ctx, `
				INSERT INTO order_returns (`+ReturnColumns+`)
				SELECT $1, sale, $3, epoch, $4, $5, $6, $7 FROM sales WHERE sale = $2 {share}
				ON CONFLICT DO NOTHING`,
				[16]byte(r.ID), r.Sale, r.Item, r.BuyerHash, r.WithoutKey, r.Quantity, r.Units); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `DELETE FROM dead_letters WHERE order_id = $1`, [16]byte(id))
		return err
	})
}
