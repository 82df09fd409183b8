package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// Commit writes the batch in one transaction, order by order.
func (s *Store) Commit(ctx context.Context, batch []orders.Reservation) ([]orders.Verdict, error) {
	verdicts := make([]orders.Verdict, len(batch))
	err := s.inTx(ctx, "commit", func(tx *sql.Tx) error {
		for i := range batch {
			v, err := commit(ctx, tx, &batch[i])
			if err != nil {
				return err
			}
			verdicts[i] = v
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return verdicts, nil
}

func commit(ctx context.Context, tx *sql.Tx, r *orders.Reservation) (orders.Verdict, error) {
	var (
		v           orders.Verdict
		epoch, hold int64
	)
	err := tx.QueryRowContext(ctx, `SELECT status, reason FROM orders WHERE order_id = ?`, r.ID.String()).Scan(&v.Status, &v.Reason)
	if !errors.Is(err, sql.ErrNoRows) {
		return v, err
	}
	err = tx.QueryRowContext(ctx, `SELECT epoch, hold_ms FROM sales WHERE sale = ?`, r.Sale).Scan(&epoch, &hold)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return v, err
	}
	if r.Reason == "" && epoch != r.Epoch {
		return orders.Verdict{Stale: true}, nil
	}
	if r.Reason == "" {
		for _, u := range r.Units {
			var taken bool
			if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM order_units WHERE sale = ? AND item = ? AND unit = ?)`,
				r.Sale, r.Item, u).Scan(&taken); err != nil {
				return v, err
			}
			if taken {
				v.Taken = append(v.Taken, u)
			}
		}
	}
	now := time.Now()
	written, err := insert(ctx, tx, r, now, hold)
	switch {
	case err != nil:
		return v, err
	case !written:
		duplicate := *r
		duplicate.Reason = orders.ReasonDuplicate
		_, err := insert(ctx, tx, &duplicate, now, hold)
		return orders.Verdict{Status: orders.StatusRejected, Reason: orders.ReasonDuplicate}, err
	case r.Reason != "":
		return orders.Verdict{Status: orders.StatusRejected, Reason: r.Reason}, nil
	case len(v.Taken) > 0:
		_, err := tx.ExecContext(ctx, `DELETE FROM orders WHERE order_id = ?`, r.ID.String())
		return v, err
	}
	for _, u := range r.Units {
		if _, err := tx.ExecContext(ctx, `INSERT INTO order_units (sale, item, unit, order_id) VALUES (?, ?, ?, ?)`,
			r.Sale, r.Item, u, r.ID.String()); err != nil {
			return v, err
		}
	}
	return orders.Verdict{Status: orders.StatusConfirmed}, nil
}

// insert writes the order's row and tells whether its identity was free.
func insert(ctx context.Context, tx *sql.Tx, r *orders.Reservation, now time.Time, hold int64) (bool, error) {
	var (
		status    = orders.StatusConfirmed
		units     = r.Units
		keyHash   = &r.KeyHash
		confirmed = sql.NullInt64{Int64: now.UnixMilli(), Valid: true}
		pay       = sql.NullInt64{Int64: now.UnixMilli() + hold, Valid: hold > 0}
	)
	if r.Reason != "" {
		status, units, confirmed, pay = orders.StatusRejected, []int{}, sql.NullInt64{}, sql.NullInt64{}
		if r.KeyHash == "" || r.Reason == orders.ReasonDuplicate {
			keyHash = nil
		}
	}
	list, err := json.Marshal(units)
	if err != nil {
		return false, err
	}
	res, err := tx.ExecContext(ctx, `
		INSERT INTO orders (order_id, sale, item, buyer, buyer_hash, key_hash, quantity, units, status, reason, epoch,
		                    accepted_at, confirmed_at, pay_before)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sale, buyer_hash, item, key_hash) DO NOTHING`,
		r.ID.String(), r.Sale, r.Item, r.Buyer, r.BuyerHash, keyHash, r.Quantity, string(list), status, r.Reason, r.Epoch,
		r.AcceptedMS, confirmed, pay)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// Bury keeps a reservation as a dead letter, once.
func (s *Store) Bury(ctx context.Context, r orders.Reservation, reason string) error {
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
