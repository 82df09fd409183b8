package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Captured reads the payment of a reference, whose order should be id; ok is false if there is none.
func Captured(ctx context.Context, c sqldb.Conn, id orders.ID, reference string) (p orders.Payment, ok bool, err error) {
	p = orders.Payment{Order: id, Reference: reference}
	var recorded orders.ID
	err = c.Replanned().One(ctx, `SELECT order_id, action, status FROM payments JOIN orders USING (order_id) WHERE reference = $1`,
		[]any{(*[16]byte)(&recorded), &p.Action, &p.Status}, reference)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return p, false, nil
	case err == nil && recorded != id:
		err = storage.OtherOrders(reference)
	}
	return p, err == nil, err
}

// NextExpiry reads the index of unpaid orders.
func (s *Store) NextExpiry(ctx context.Context, most time.Duration) (time.Duration, error) {
	var now, next sqldb.Time
	err := s.db.Replanned().One(ctx, `SELECT {now}, min(pay_before) FROM orders WHERE status = 'confirmed' AND pay_before <= {now} + {ms $1}`,
		[]any{&now, &next}, most)
	if err != nil || time.Time(next).IsZero() {
		return most, s.wrap("next expiry", err)
	}
	return max(time.Time(next).Sub(time.Time(now)), 0), nil
}

// ReturnColumns are the columns of order_returns, and what ScanReturn reads.
const ReturnColumns = `order_id, sale, item, epoch, buyer_hash, keyless, quantity, units`

// ScanReturn reads a return, and further columns into more.
func ScanReturn(row sqldb.Row, more ...any) (r storage.Return, err error) {
	err = row.Scan(append([]any{(*[16]byte)(&r.ID), &r.Sale, &r.Item, &r.Epoch, &r.BuyerHash, &r.WithoutKey, &r.Quantity, &r.Units},
		more...)...)
	return r, err
}

// Returns reads the returns that Redis may not have yet.
func (s *Store) Returns(ctx context.Context, sale string, limit int) ([]storage.Return, error) {
	list, err := all(ctx, s.db.Conn, `SELECT `+ReturnColumns+` FROM order_returns WHERE $1 = '' OR sale = $1 ORDER BY random() LIMIT $2`,
		func(row sqldb.Row) (storage.Return, error) { return ScanReturn(row) }, sale, limit)
	return list, s.wrap("returns", err)
}

// Returned deletes completed returns.
func (s *Store) Returned(ctx context.Context, ids []orders.ID) error {
	_, err := s.db.Replanned().Exec(ctx, `DELETE FROM order_returns WHERE order_id {in $1}`, UUIDs(ids))
	return s.wrap("returned", err)
}

// Feed returns the events after a number, up to another.
func Feed(ctx context.Context, s *Store, after, upTo int64, limit int) ([]orders.Event, error) {
	list, err := all(ctx, s.db.Replanned(), `
		SELECT seq, at, order_id, sale, item, buyer, quantity, units, e.status, e.reason, action, reference
		FROM order_events e JOIN orders USING (order_id)
		WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3`, func(row sqldb.Row) (e orders.Event, err error) {
		err = row.Scan(&e.Seq, (*sqldb.Time)(&e.At), (*[16]byte)(&e.OrderID), &e.Sale, &e.Item, &e.Buyer, &e.Quantity, &e.Units, &e.Status,
			&e.Reason, &e.Action, &e.Reference)
		return e, err
	}, after, upTo, limit)
	return list, s.wrap("events", err)
}
