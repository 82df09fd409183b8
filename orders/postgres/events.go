package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
)

// watermark is what makes the feed whole. Numbers are given before their
// transactions commit, so a larger one may be seen before a smaller one. All
// numbers up to next are given by transactions below xid; when none of those
// runs any more, nothing can come before settled.
type watermark struct {
	mu      sync.Mutex
	settled int64
	next    int64
	xid     uint64
}

// Events returns nothing behind a number that a running transaction may still
// write. A transaction that writes for long in any database of the server
// holds the feed up so long.
func (s *Store) Events(ctx context.Context, after int64, limit int) ([]orders.Event, error) {
	settled, err := s.settled(ctx)
	if err != nil {
		return nil, wrap("events", err)
	}
	rows, _ := s.pool.Query(ctx, `
		SELECT seq, at, order_id, sale, item, buyer, quantity, units, e.status, e.reason, action, reference
		FROM order_events e JOIN orders USING (order_id)
		WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3`, after, settled, limit)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (orders.Event, error) {
		var (
			e  orders.Event
			id [16]byte
		)
		err := row.Scan(&e.Seq, &e.At, &id, &e.Sale, &e.Item, &e.Buyer, &e.Quantity, &e.Units, &e.Status, &e.Reason, &e.Action, &e.Reference)
		e.OrderID, e.At = id, e.At.UTC()
		return e, err
	})
	return list, wrap("events", err)
}

func (s *Store) settled(ctx context.Context) (int64, error) {
	w := &s.feed
	w.mu.Lock()
	defer w.mu.Unlock()
	var given int64 // read before the snapshot: whoever took a number up to it has an id by then
	if err := s.pool.QueryRow(ctx, `SELECT last_value FROM order_events_seq_seq`).Scan(&given); err != nil {
		return 0, err
	}
	var oldest, newest uint64
	if err := s.pool.QueryRow(ctx, `SELECT pg_snapshot_xmin(now)::text::bigint, pg_snapshot_xmax(now)::text::bigint FROM pg_current_snapshot() AS now`).
		Scan(&oldest, &newest); err != nil {
		return 0, err
	}
	if w.settled >= w.next {
		w.next, w.xid = given, newest
	}
	if oldest >= w.xid {
		w.settled = w.next
		w.next, w.xid = given, newest
	}
	if oldest == newest { // nothing runs
		w.settled = given
	}
	return w.settled, nil
}
