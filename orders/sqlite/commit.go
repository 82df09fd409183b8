package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Prove begins a transaction that may write.
func (s *Store) Prove(ctx context.Context) error {
	return s.inTx(ctx, "prove", func(tx sqldb.Conn) error {
		_, err := tx.Exec(ctx, `UPDATE orders SET status = status WHERE false`)
		return err
	})
}

// Commit writes the batch in one transaction, order by order.
func (s *Store) Commit(ctx context.Context, batch []orders.Reservation) ([]storage.Verdict, error) {
	verdicts := make([]storage.Verdict, len(batch))
	err := s.inTx(ctx, "commit", func(tx sqldb.Conn) error {
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

func commit(ctx context.Context, tx sqldb.Conn, r *orders.Reservation) (storage.Verdict, error) {
	var (
		v                  storage.Verdict
		epoch, floor, hold int64
	)
	err := tx.One(ctx, `SELECT status, reason FROM orders WHERE order_id = $1`, []any{&v.Status, &v.Reason}, [16]byte(r.ID))
	if !errors.Is(err, sql.ErrNoRows) {
		v.Repeated = true
		return v, err
	}
	err = tx.One(ctx, `SELECT epoch, epoch_floor, hold_ms FROM sales WHERE sale = $1`, []any{&epoch, &floor, &hold}, r.Sale)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return v, err
	}
	if r.Epoch < floor || r.Epoch > epoch {
		return storage.Verdict{Stale: true}, nil
	}
	if r.Reason == "" {
		for _, u := range r.Units {
			var taken bool
			if err := tx.One(ctx, `
				SELECT EXISTS (SELECT 1 FROM order_units WHERE sale = $1 AND item = $2 AND unit = $3)
				    OR NOT EXISTS (SELECT 1 FROM items WHERE sale = $1 AND item = $2 AND stock >= $3)`,
				[]any{&taken}, r.Sale, r.Item, u); err != nil {
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
		return storage.Verdict{Status: orders.StatusRejected, Reason: orders.ReasonDuplicate},
			record(ctx, tx, orders.Event{OrderID: r.ID, Status: orders.StatusRejected, Reason: orders.ReasonDuplicate})
	case r.Reason != "":
		return storage.Verdict{Status: orders.StatusRejected, Reason: r.Reason},
			record(ctx, tx, orders.Event{OrderID: r.ID, Status: orders.StatusRejected, Reason: r.Reason})
	case len(v.Taken) > 0:
		_, err := tx.Exec(ctx, `DELETE FROM orders WHERE order_id = $1`, [16]byte(r.ID))
		return v, err
	}
	for _, u := range r.Units {
		if _, err := tx.Exec(ctx, `INSERT INTO order_units (sale, item, unit, order_id) VALUES ($1, $2, $3, $4)`,
			r.Sale, r.Item, u, [16]byte(r.ID)); err != nil {
			return v, err
		}
	}
	return storage.Verdict{Status: orders.StatusConfirmed}, record(ctx, tx, orders.Event{OrderID: r.ID, Status: orders.StatusConfirmed})
}

// insertOrder takes the two times that depend on the clock, and the columns of a row.
var insertOrder = func() string {
	var names, values strings.Builder
	for i, c := range sqlstore.Written {
		names.WriteString(c.Name + ", ")
		fmt.Fprintf(&values, "$%d, ", i+3)
	}
	return "INSERT INTO orders (" + names.String() + "confirmed_at, pay_before) VALUES (" + values.String() + "$1, $2) ON CONFLICT (sale, buyer_hash, item, key_hash) DO NOTHING"
}()

// insert writes the order's row and reports whether its identity was free.
func insert(ctx context.Context, tx sqldb.Conn, r *orders.Reservation, now time.Time, hold int64) (bool, error) {
	row := sqlstore.RowOf(r)
	var confirmed, pay sql.NullInt64
	if row.Status == orders.StatusConfirmed {
		confirmed = sql.NullInt64{Int64: now.UnixMilli(), Valid: true}
		pay = sql.NullInt64{Int64: now.UnixMilli() + hold, Valid: hold > 0}
	}
	args := []any{confirmed, pay}
	for _, c := range sqlstore.Written {
		args = append(args, c.Of(&row))
	}
	n, err := tx.Exec(ctx, insertOrder, args...)
	return n == 1, err
}

// record adds the event of a change, in the transaction of the change.
func record(ctx context.Context, tx sqldb.Conn, e orders.Event) error {
	_, err := tx.Exec(ctx, `INSERT INTO order_events (at, order_id, status, reason, action, reference) VALUES ({now}, $1, $2, $3, $4, $5)`,
		[16]byte(e.OrderID), e.Status, e.Reason, e.Action, e.Reference)
	return err
}

// Events reads what is committed: there is one writer, so numbers and commits have the same order.
func (s *Store) Events(ctx context.Context, after int64, limit int) ([]orders.Event, error) {
	return sqlstore.Feed(ctx, &s.common, after, math.MaxInt64, limit)
}
