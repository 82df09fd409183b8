package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Capture changes the order only together with the record of the capture.
func (s *Store) Capture(ctx context.Context, id orders.ID, reference string) (p orders.Payment, err error) {
	err = s.inTx(ctx, "capture", func(tx sqldb.Conn) error {
		var recorded bool
		if p, recorded, err = sqlstore.Captured(ctx, tx, id, reference); err != nil || recorded {
			return err
		}
		paid, err := tx.Exec(ctx, `UPDATE orders SET status = 'paid' WHERE order_id = $1 AND status = 'confirmed' AND pay_before IS NOT NULL`,
			[16]byte(id))
		if err != nil {
			return err
		}
		p.Action = orders.ActionRefund
		if paid == 1 {
			p.Action = orders.ActionNone
		}
		err = tx.One(ctx, `SELECT status FROM orders WHERE order_id = $1`, []any{&p.Status}, [16]byte(id))
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
	err := s.inTx(ctx, "pay", func(tx sqldb.Conn) error {
		paid = nil
		for id, reference := range references {
			changed, err := tx.Exec(ctx, `
				UPDATE orders SET status = 'paid' WHERE order_id = $1 AND status = 'confirmed' AND pay_before IS NOT NULL
				AND NOT EXISTS (SELECT 1 FROM payments WHERE reference = $2)`, [16]byte(id), reference)
			if err != nil {
				return err
			}
			if changed == 0 {
				continue
			}
			if err := insertPayment(ctx, tx, orders.Payment{
				Order: id, Reference: reference, Action: orders.ActionNone,
				Status: orders.StatusPaid,
			}); err != nil {
				return err
			}
			paid = append(paid, id)
		}
		return nil
	})
	return paid, err
}

// insertPayment records a capture and its event.
func insertPayment(ctx context.Context, tx sqldb.Conn, p orders.Payment) error {
	if _, err := tx.Exec(ctx, `INSERT INTO payments (reference, order_id, action, captured_at) VALUES ($1, $2, $3, {now})`,
		p.Reference, [16]byte(p.Order), p.Action); err != nil {
		return err
	}
	return record(ctx, tx, orders.Event{OrderID: p.Order, Status: p.Status, Action: p.Action, Reference: p.Reference})
}

// Cancel ends one order after the other in one transaction.
func (s *Store) Cancel(ctx context.Context, ids []orders.ID) ([]storage.Return, error) {
	return s.end(ctx, orders.StatusCancelled, `order_id {in $1} AND pay_before IS NOT NULL`, sqlstore.UUIDs(ids))
}

// Expire ends the orders that are due by this machine's clock, which also set pay_before.
func (s *Store) Expire(ctx context.Context, limit int) ([]storage.Return, error) {
	return s.end(ctx, orders.StatusExpired, `pay_before <= $1 ORDER BY pay_before LIMIT $2`, time.Now(), limit)
}

// end ends the confirmed orders that the condition finds.
func (s *Store) end(ctx context.Context, to orders.Status, condition string, args ...any) ([]storage.Return, error) {
	var ended []storage.Return
	err := s.inTx(ctx, string(to), func(tx sqldb.Conn) error {
		ended = nil
		if err := tx.Each(ctx, `
			SELECT order_id, sale, item, (SELECT epoch FROM sales s WHERE s.sale = o.sale), buyer_hash, key_hash = '', quantity, units
			FROM orders o WHERE status = 'confirmed' AND `+condition, func(row sqldb.Row) error {
			r, err := sqlstore.ScanReturn(row)
			r.Status = to
			ended = append(ended, r)
			return err
		}, args...); err != nil {
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

func end(ctx context.Context, tx sqldb.Conn, r *storage.Return) error {
	id := [16]byte(r.ID)
	if _, err := tx.Exec(ctx, `UPDATE orders SET status = $1, key_hash = NULLIF(key_hash, '') WHERE order_id = $2 AND status = 'confirmed'`,
		r.Status, id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM order_units WHERE sale = $1 AND item = $2 AND order_id = $3 AND unit {in $4}`, r.Sale, r.Item, id,
		r.Units); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO order_returns (`+sqlstore.ReturnColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING`,
		id, r.Sale, r.Item, r.Epoch, r.BuyerHash, r.WithoutKey, r.Quantity, r.Units); err != nil {
		return err
	}
	return record(ctx, tx, orders.Event{OrderID: r.ID, Status: r.Status})
}
