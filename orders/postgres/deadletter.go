package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
)

// AddDeadLetter keeps a reservation as a dead letter, once.
func (s *Store) AddDeadLetter(ctx context.Context, r orders.Reservation, reason string) error {
	payload, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `
		INSERT INTO dead_letters (order_id, sale, item, payload, reason) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		[16]byte(r.ID), r.Sale, r.Item, payload, reason)
	return wrap("bury", err)
}

func scanDeadLetter(row pgx.CollectableRow) (orders.DeadLetter, error) {
	var (
		d       orders.DeadLetter
		payload []byte
	)
	if err := row.Scan(&payload, &d.Reason, &d.At); err != nil {
		return d, err
	}
	var err error
	d.At = d.At.UTC()
	d.Reservation, err = orders.ParseReservation(payload)
	return d, err
}

// DeadLetters lists dead letters sorted by id.
func (s *Store) DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error) {
	rows, _ := s.pool.Query(ctx, `
		SELECT payload, reason, created_at FROM dead_letters d
		WHERE order_id > $1 AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id AND status <> 'rejected')
		ORDER BY order_id LIMIT $2`, [16]byte(after), limit)
	list, err := pgx.CollectRows(rows, scanDeadLetter)
	return list, wrap("dead letters", err)
}

// DeadLetter returns one, even if its order is stored by now.
func (s *Store) DeadLetter(ctx context.Context, id orders.ID) (orders.DeadLetter, error) {
	rows, _ := s.pool.Query(ctx, `SELECT payload, reason, created_at FROM dead_letters WHERE order_id = $1`, [16]byte(id))
	d, err := pgx.CollectExactlyOneRow(rows, scanDeadLetter)
	if errors.Is(err, pgx.ErrNoRows) {
		err = orders.ErrUnknownOrder
	}
	return d, wrap("dead letter", err)
}

// DeleteDeadLetter deletes a dead letter.
func (s *Store) DeleteDeadLetter(ctx context.Context, id orders.ID, back []orders.Return) error {
	return s.inTx(ctx, "exhume", func(tx pgx.Tx) error {
		for _, r := range back {
			if _, err := tx.Exec(ctx, `
				INSERT INTO order_returns (`+returnColumns+`)
				SELECT $1, sale, $3, epoch, $4, $5, $6, $7 FROM sales WHERE sale = $2 FOR SHARE
				ON CONFLICT DO NOTHING`,
				[16]byte(r.ID), r.Sale, r.Item, r.BuyerHash, r.WithoutKey, r.Quantity, r.Units); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `DELETE FROM dead_letters WHERE order_id = $1`, [16]byte(id))
		return err
	})
}
