package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/orders"
)

// watermark is what makes the feed whole. Transactions neither take numbers in
// the order of their ids nor commit in the order of their numbers, so a larger
// number may be seen before a smaller one. But all take an id before a number:
// whoever has a number up to next has an id below xid, which was taken later.
// When none of those runs any more, nothing can come before the last event up
// to next, which is settled. What was given above that went to transactions
// that failed, and a server that crashes may give it again.
type watermark struct {
	asking  singleflight.Group // of all followers one asks, and the others share the answer
	mu      sync.Mutex
	settled int64
	next    int64
	xid     uint64 // that is waited for, 0 for none
}

// settleWithin is how long followers share one asking of a database that does not answer.
const settleWithin = 2 * time.Second

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

// settled waits no longer than ctx, even if another follower's question does.
func (s *Store) settled(ctx context.Context) (int64, error) {
	answer := s.feed.asking.DoChan("", func() (any, error) {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
		defer cancel()
		return s.settle(asking)
	})
	select {
	case a := <-answer:
		settled, _ := a.Val.(int64)
		return settled, a.Err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// settling is of one snapshot, but for the first: that is a sequence's.
const settling = `
	SELECT last_value, pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
	       (SELECT coalesce(max(seq), 0) FROM order_events WHERE seq <= $1), (SELECT coalesce(max(seq), 0) FROM order_events)
	FROM order_events_seq_seq`

// settle takes a transaction id only when there is something new. A snapshot's
// end would not do: it is the last id that has finished, and ids above it may run.
func (s *Store) settle(ctx context.Context) (int64, error) {
	w := &s.feed
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 2 { // what was waited for, and what was given since
		var (
			given, settled, last int64
			oldest               uint64
		)
		if err := s.pool.QueryRow(ctx, settling, w.next).Scan(&given, &oldest, &settled, &last); err != nil {
			return 0, err
		}
		w.settled = min(w.settled, last) // unless a server took over that had not heard of all
		if given < w.next {              // a server that crashed gives numbers again
			w.next, w.xid = 0, 0
		}
		if w.xid > 0 {
			if oldest < w.xid {
				break
			}
			w.settled, w.xid = settled, 0
		}
		if given == w.next && last <= w.settled {
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
