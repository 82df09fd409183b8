package postgres

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/orders"
)

// watermark is what makes the feed whole. Transactions neither take numbers in
// the order of their ids nor commit in the order of their numbers, so a larger
// number may be seen before a smaller one. But all take an id before a number:
// whoever has a number up to next has an id below xid, which was taken later.
// When none of those runs any more, nothing can come before settled.
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
	if settled <= after {
		return nil, nil
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

// settled takes a transaction id only when numbers were given since the last
// one. A snapshot's end would not do: it is the last id that has finished, and
// ids above it may run.
func (s *Store) settled(ctx context.Context) (int64, error) {
	w := &s.feed
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 2 { // what was waited for, and what was given since
		if w.settled < w.next {
			var oldest uint64
			if err := s.pool.QueryRow(ctx, `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint`).Scan(&oldest); err != nil {
				return 0, err
			}
			if oldest < w.xid {
				break
			}
			w.settled = w.next
		}
		var given int64
		if err := s.pool.QueryRow(ctx, `SELECT last_value FROM order_events_seq_seq`).Scan(&given); err != nil {
			return 0, err
		}
		if given <= w.settled {
			break
		}
		var xid uint64
		if err := s.pool.QueryRow(ctx, `SELECT pg_current_xact_id()::text::bigint`).Scan(&xid); err != nil {
			return 0, err
		}
		w.next, w.xid = given, xid
	}
	return w.settled, nil
}
