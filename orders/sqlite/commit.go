package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// Prove begins a transaction that may write.
func (s *Store) Prove(ctx context.Context) error {
	return s.exec(ctx, "prove", `UPDATE orders SET status = status WHERE false`)
}

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
		v                  orders.Verdict
		epoch, floor, hold int64
	)
	err := tx.QueryRowContext(ctx, `SELECT status, reason FROM orders WHERE order_id = ?`, r.ID.String()).Scan(&v.Status, &v.Reason)
	if !errors.Is(err, sql.ErrNoRows) {
		v.Repeated = true
		return v, err
	}
	err = tx.QueryRowContext(ctx, `SELECT epoch, epoch_floor, hold_ms FROM sales WHERE sale = ?`, r.Sale).Scan(&epoch, &floor, &hold)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return v, err
	}
	if r.Epoch < floor || r.Epoch > epoch {
		return orders.Verdict{Stale: true}, nil
	}
	if r.Reason == "" {
		for _, u := range r.Units {
			var taken bool
			if err := tx.QueryRowContext(ctx, `
				SELECT EXISTS (SELECT 1 FROM order_units WHERE sale = ?1 AND item = ?2 AND unit = ?3)
				    OR NOT EXISTS (SELECT 1 FROM items WHERE sale = ?1 AND item = ?2 AND stock >= ?3)`,
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
		if _, err := insert(ctx, tx, &duplicate, now, hold); err != nil {
			return v, err
		}
		return orders.Verdict{Status: orders.StatusRejected, Reason: orders.ReasonDuplicate},
			record(ctx, tx, orders.Event{OrderID: r.ID, Status: orders.StatusRejected, Reason: orders.ReasonDuplicate})
	case r.Reason != "":
		return orders.Verdict{Status: orders.StatusRejected, Reason: r.Reason},
			record(ctx, tx, orders.Event{OrderID: r.ID, Status: orders.StatusRejected, Reason: r.Reason})
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
	return orders.Verdict{Status: orders.StatusConfirmed}, record(ctx, tx, orders.Event{OrderID: r.ID, Status: orders.StatusConfirmed})
}

// insert writes the order's row and reports whether its identity was free.
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
