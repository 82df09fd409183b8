package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
)

// Capture changes the order only together with the record of the capture.
func (s *Store) Capture(ctx context.Context, id orders.ID, reference string) (orders.Payment, error) {
	p := orders.Payment{Order: id, Reference: reference}
	err := s.inTx(ctx, "capture", func(tx *sql.Tx) error {
		var recorded orders.ID
		var text string
		err := tx.QueryRowContext(ctx, `SELECT order_id, action, status FROM payments JOIN orders USING (order_id) WHERE reference = ?`, reference).
			Scan(&text, &p.Action, &p.Status)
		switch {
		case err == nil:
			if err := recorded.UnmarshalText([]byte(text)); err != nil {
				return err
			}
			if recorded != id {
				return failure.New(orders.ErrConflict, "reference %q is of another order", reference)
			}
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE orders SET status = 'paid' WHERE order_id = ? AND status = 'confirmed' AND pay_before IS NOT NULL`, id.String())
		if err != nil {
			return err
		}
		paid, err := res.RowsAffected()
		if err != nil {
			return err
		}
		p.Action = orders.ActionRefund
		if paid == 1 {
			p.Action = orders.ActionNone
		}
		err = tx.QueryRowContext(ctx, `SELECT status FROM orders WHERE order_id = ?`, id.String()).Scan(&p.Status)
		if errors.Is(err, sql.ErrNoRows) {
			return orders.ErrUnknownOrder
		} else if err != nil {
			return err
		}
		return insertPayment(ctx, tx, p)
	})
	return p, err
}

// Pay pays one order after the other in one transaction.
func (s *Store) Pay(ctx context.Context, references map[orders.ID]string) ([]orders.ID, error) {
	var paid []orders.ID
	err := s.inTx(ctx, "pay", func(tx *sql.Tx) error {
		paid = nil
		for id, reference := range references {
			res, err := tx.ExecContext(ctx, `
				UPDATE orders SET status = 'paid' WHERE order_id = ?1 AND status = 'confirmed' AND pay_before IS NOT NULL
				AND NOT EXISTS (SELECT 1 FROM payments WHERE reference = ?2)`, id.String(), reference)
			if err != nil {
				return err
			}
			if changed, err := res.RowsAffected(); err != nil || changed == 0 {
				if err != nil {
					return err
				}
				continue
			}
			if err := insertPayment(ctx, tx, orders.Payment{Order: id, Reference: reference, Action: orders.ActionNone, Status: orders.StatusPaid}); err != nil {
				return err
			}
			paid = append(paid, id)
		}
		return nil
	})
	return paid, err
}

// insertPayment records a capture and its event.
func insertPayment(ctx context.Context, tx *sql.Tx, p orders.Payment) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO payments (reference, order_id, action, captured_at) VALUES (?, ?, ?, ?)`,
		p.Reference, p.Order.String(), p.Action, time.Now().UnixMilli()); err != nil {
		return err
	}
	return record(ctx, tx, orders.Event{OrderID: p.Order, Status: p.Status, Action: p.Action, Reference: p.Reference})
}

// Cancel ends one order after the other in one transaction.
func (s *Store) Cancel(ctx context.Context, ids []orders.ID) ([]orders.Return, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	return s.end(ctx, orders.StatusCancelled, `order_id IN (SELECT value FROM json_each(?)) AND pay_before IS NOT NULL`, string(list))
}

// Expire ends the orders that are due by this machine's clock, which also set pay_before.
func (s *Store) Expire(ctx context.Context, limit int) ([]orders.Return, error) {
	return s.end(ctx, orders.StatusExpired, `pay_before <= ? ORDER BY pay_before LIMIT ?`, time.Now().UnixMilli(), limit)
}

// NextExpiry reads the index of unpaid orders.
func (s *Store) NextExpiry(ctx context.Context, most time.Duration) (time.Duration, error) {
	now := time.Now().UnixMilli()
	var next sql.NullInt64
	err := s.db.QueryRowContext(ctx, `SELECT min(pay_before) FROM orders WHERE status = 'confirmed' AND pay_before <= ?`, now+most.Milliseconds()).Scan(&next)
	if err != nil || !next.Valid {
		return most, wrap("next expiry", err)
	}
	return time.Duration(max(next.Int64-now, 0)) * time.Millisecond, nil
}

const returnColumns = `order_id, sale, item, epoch, buyer_hash, keyless, quantity, units`

func scanReturn(row interface{ Scan(...any) error }) (orders.Return, error) {
	var (
		r         orders.Return
		id, units string
	)
	if err := row.Scan(&id, &r.Sale, &r.Item, &r.Epoch, &r.BuyerHash, &r.WithoutKey, &r.Quantity, &units); err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(units), &r.Units); err != nil {
		return r, err
	}
	return r, r.ID.UnmarshalText([]byte(id))
}

// end ends the confirmed orders that the condition finds.
func (s *Store) end(ctx context.Context, to orders.Status, condition string, args ...any) ([]orders.Return, error) {
	var ended []orders.Return
	err := s.inTx(ctx, string(to), func(tx *sql.Tx) error {
		ended = nil
		if err := each(ctx, tx, func(rows *sql.Rows) error {
			r, err := scanReturn(rows)
			r.Status = to
			ended = append(ended, r)
			return err
		}, `
			SELECT order_id, sale, item, (SELECT epoch FROM sales s WHERE s.sale = o.sale), buyer_hash, key_hash = '', quantity, units
			FROM orders o WHERE status = 'confirmed' AND `+condition, args...); err != nil {
			return err
		}
		for i := range ended {
			if err := end(ctx, tx, &ended[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return ended, err
}

func end(ctx context.Context, tx *sql.Tx, r *orders.Return) error {
	id := r.ID.String()
	if _, err := tx.ExecContext(ctx, `UPDATE orders SET status = ?, key_hash = NULLIF(key_hash, '') WHERE order_id = ? AND status = 'confirmed'`,
		r.Status, id); err != nil {
		return err
	}
	units, err := json.Marshal(r.Units)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		DELETE FROM order_units WHERE sale = ? AND item = ? AND order_id = ? AND unit IN (SELECT value FROM json_each(?))`,
		r.Sale, r.Item, id, string(units)); err != nil {
		return err
	}
	if err := insertReturn(ctx, tx, r); err != nil {
		return err
	}
	return record(ctx, tx, orders.Event{OrderID: r.ID, Status: r.Status})
}

func insertReturn(ctx context.Context, tx *sql.Tx, r *orders.Return) error {
	units, err := json.Marshal(r.Units)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO order_returns (`+returnColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		r.ID.String(), r.Sale, r.Item, r.Epoch, r.BuyerHash, r.WithoutKey, r.Quantity, string(units))
	return err
}

// Returns reads the returns that Redis may not have yet.
func (s *Store) Returns(ctx context.Context, sale string, limit int) ([]orders.Return, error) {
	var list []orders.Return
	err := each(ctx, s.db, func(rows *sql.Rows) error {
		r, err := scanReturn(rows)
		list = append(list, r)
		return err
	}, `SELECT `+returnColumns+` FROM order_returns WHERE ?1 = '' OR sale = ?1 ORDER BY random() LIMIT ?2`, sale, limit)
	return list, wrap("returns", err)
}

// Returned deletes completed returns.
func (s *Store) Returned(ctx context.Context, ids []orders.ID) error {
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return s.exec(ctx, "returned", `DELETE FROM order_returns WHERE order_id IN (SELECT value FROM json_each(?))`, string(list))
}
