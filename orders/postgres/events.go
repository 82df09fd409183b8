package postgres

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/internal/sqldb"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/sqlstore"
)

// watermark ensures that the feed skips no event. Transactions neither take sequence numbers in the order of their ids nor
// commit in the order of their numbers, so a larger number may be visible before a smaller one. But each transaction takes an
// id before a number: a transaction with a number up to next has an id below xid, which was taken later. When none of those is
// running any more, no event can be added before the last one up to next, which is then settled. Numbers above it were taken by
// transactions that failed, and may be reused after a server crash.
type watermark struct {
	asking  singleflight.Group // concurrent followers share one query
	mu      sync.Mutex
	settled int64
	next    int64
	xid     uint64 // the id that is waited for, 0 for none
}

// settleWithin is how long followers share one query to a database that does not answer.
const settleWithin = 2 * time.Second

// Events returns nothing after a number that a running transaction may still write. A long writing transaction in any database
// of the server delays the feed for as long as it runs.
func (s *Store) Events(ctx context.Context, after int64, limit int) ([]orders.Event, error) {
	settled, err := s.settled(ctx)
	if err != nil {
		return nil, wrap("events", err)
	}
	if settled <= after {
		return nil, nil
	}
	return sqlstore.Feed(ctx, &s.common, after, settled, limit)
}

// settled returns when ctx ends, even if the query that it shares with other followers takes longer.
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

// settling reads one snapshot, except last_value, which is the current value of the sequence.
const settling = `
	SELECT last_value, pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
	       (SELECT coalesce(max(seq), 0) FROM order_events WHERE seq <= $1), (SELECT coalesce(max(seq), 0) FROM order_events)
	FROM order_events_seq_seq`

// settle takes a transaction id only when there is something new. The end of a snapshot cannot replace it: that is the last
// finished id, and transactions with higher ids may be running.
func (s *Store) settle(ctx context.Context) (int64, error) {
	w := &s.feed
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 2 { // the number that was waited for, and numbers taken since
		var (
			given, settled, last int64
			oldest               uint64
		)
		if err := s.pool.QueryRow(ctx, settling, sqldb.Replan, w.next).Scan(&given, &oldest, &settled, &last); err != nil {
			return 0, err
		}
		w.settled = min(w.settled, last) // smaller only if a server took over that lacks commits
		if given < w.next {              // after a crash a server assigns numbers again
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
