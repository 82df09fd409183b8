package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// AddDeadLetter keeps a reservation as a dead letter, once.
func (s *Store) AddDeadLetter(ctx context.Context, r orders.Reservation, reason string) error {
	payload, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.inTx(ctx, "bury", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO dead_letters (order_id, sale, item, payload, reason, created_at)
			VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			r.ID.String(), r.Sale, r.Item, payload, reason, time.Now().UnixMilli())
		return err
	})
}

func scanDeadLetter(row interface{ Scan(...any) error }) (orders.DeadLetter, error) {
	var (
		d       orders.DeadLetter
		payload []byte
		at      int64
	)
	err := row.Scan(&payload, &d.Reason, &at)
	if err != nil {
		return d, err
	}
	d.At = time.UnixMilli(at).UTC()
	d.Reservation, err = orders.ParseReservation(payload)
	return d, err
}

// DeadLetters lists dead letters sorted by id.
func (s *Store) DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error) {
	var list []orders.DeadLetter
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		d, err := scanDeadLetter(rows)
		list = append(list, d)
		return err
	}, `
		SELECT payload, reason, created_at FROM dead_letters d
		WHERE order_id > ? AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.order_id = d.order_id AND status <> 'rejected')
		ORDER BY order_id LIMIT ?`, after.String(), limit)
	return list, wrap("dead letters", err)
}

// DeadLetter returns one, even if its order is stored by now.
func (s *Store) DeadLetter(ctx context.Context, id orders.ID) (orders.DeadLetter, error) {
	d, err := scanDeadLetter(s.db.QueryRowContext(ctx, `SELECT payload, reason, created_at FROM dead_letters WHERE order_id = ?`, id.String()))
	if errors.Is(err, sql.ErrNoRows) {
		err = orders.ErrUnknownOrder
	}
	return d, wrap("dead letter", err)
}

// DeleteDeadLetter deletes a dead letter.
func (s *Store) DeleteDeadLetter(ctx context.Context, id orders.ID, back []orders.Return) error {
	return s.inTx(ctx, "exhume", func(tx *sql.Tx) error {
		for i := range back {
			if err := insertReturn(ctx, tx, &back[i]); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM dead_letters WHERE order_id = ?`, id.String())
		return err
	})
}
