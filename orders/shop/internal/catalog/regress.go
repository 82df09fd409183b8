package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
)

// A database may go back in time: a standby takes over without the last commits. This is detected when the database lacks what
// a process or Redis has seen in it:
//
//   - a sale in a lower epoch, or in the same one of another leader: in the catalog of a process, or in Redis
//   - an order event: the newest one that any process or Redis has seen
//   - a committed order that a process remembers, if the server was replaced
//
// The sales concerned are recovered in an epoch above the highest of the database, Redis and this process.

// Regressions looks for such evidence.
type Regressions struct {
	*core.Core
	ledger *ledger.Ledger

	seen    sync.Map     // sale → the epoch in which it was seen before the database went back in time
	Servers atomic.Int64 // how often the database was found to be another server
	// The catalog of the latest review, nil before the first, its number of servers, and the newest event seen. Only the watch uses them.
	reviewed        *Catalog
	reviewedServers int64
	lastEvent       storage.LastEvent
}

// NewRegressions returns the part without any regression.
func NewRegressions(c *core.Core, l *ledger.Ledger) *Regressions {
	return &Regressions{Core: c, ledger: l}
}

// Regressed starts the recovery of a sale, in an epoch above the one that was seen.
func (r *Regressions) Regressed(ctx context.Context, sale string, seen int64, evidence string) {
	if before, ok := r.seen.Load(sale); ok && before.(int64) >= seen {
		return
	}
	r.seen.Store(sale, seen)
	r.Measures.Regressed()
	r.Logger.ErrorContext(ctx, "the database went back in time; the sale is closed, and what is remembered is committed again",
		slog.String("sale", sale), slog.Int64("epoch", seen), slog.String("evidence", evidence))
	r.Suspects.Add(sale, 0)
}

// allRegressed starts the recovery of every sale that Redis should have, each from its epoch in the previous review.
func (r *Regressions) allRegressed(ctx context.Context, evidence string) {
	for id, l := range r.reviewed.Sales {
		if !r.Over(&l.Sale) {
			r.Regressed(ctx, id, l.Epoch, evidence)
		}
	}
}

// Unresolved returns the epoch in which a sale was seen before the database went back in time, or 0 when the sale is in a later
// one by now.
func (r *Regressions) Unresolved(l *Listing) int64 {
	seen, ok := r.seen.Load(l.ID)
	if !ok || seen.(int64) < l.Epoch {
		r.seen.Delete(l.ID)
		return 0
	}
	return seen.(int64)
}

// RegressionError names the sales that are being recovered because the database went back in time, or is nil.
func (r *Regressions) RegressionError() error {
	var sales []string
	r.seen.Range(func(sale, _ any) bool {
		sales = append(sales, sale.(string))
		return true
	})
	if sales == nil {
		return nil
	}
	return fmt.Errorf("%w: database: it went back in time; being recovered: %s", orders.ErrRecovering, someOf(sales))
}

// compareCatalogs looks for sales that the database has in an earlier state than before.
func (r *Regressions) compareCatalogs(ctx context.Context, before, now *Catalog) {
	for id, old := range before.Sales {
		l, ok := now.Sales[id]
		switch {
		case !ok && !r.Over(&old.Sale):
			r.Logger.ErrorContext(ctx, "the database does not have a sale any more: it went back in time, or somebody deleted it",
				slog.String("sale", id))
		case ok && (l.Epoch < old.Epoch || l.Epoch == old.Epoch && l.EpochToken != old.EpochToken):
			r.Regressed(ctx, id, old.Epoch, "its epoch")
		}
	}
	for id, l := range now.Sales {
		if r.Unresolved(l) > 0 {
			r.Suspects.Add(id, 0) // the former leader may have failed
		}
	}
}

// review compares the database, whose latest catalog is c, with what this process and Redis have seen of it.
func (r *Regressions) review(ctx context.Context, c *Catalog) error {
	seen, err := r.seenEvent(ctx)
	if err != nil {
		return err
	}
	newest, there, err := r.Store.Newest(ctx, seen)
	if err != nil {
		return err
	}
	if r.reviewed == nil {
		r.reviewed = c
	}
	if !there {
		r.allRegressed(ctx, "order event "+strconv.FormatInt(seen.Seq, 10))
	}
	r.lastEvent = newest
	if newest != seen {
		if err := r.Base.Set(ctx, r.LastEventKey(), strconv.FormatInt(newest.Seq, 10)+" "+newest.Order.String(),
			core.LastEventFor).Err(); err != nil {
			return core.Unavailable(err)
		}
	}
	if servers := r.Servers.Load(); servers != r.reviewedServers {
		lost, err := r.ledger.Lost(ctx, "", math.MaxInt64, r.Store.Statuses)
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			r.allRegressed(ctx, fmt.Sprintf("%d orders that were committed", len(lost)))
		}
		r.reviewedServers = servers
	}
	r.reviewed = c
	return nil
}

// seenEvent returns the newest order event that this process or Redis has seen.
func (r *Regressions) seenEvent(ctx context.Context) (storage.LastEvent, error) {
	text, err := r.Base.Get(ctx, r.LastEventKey()).Result()
	if errors.Is(err, redis.Nil) {
		return r.lastEvent, nil
	} else if err != nil {
		return storage.LastEvent{}, core.Unavailable(err)
	}
	number, id, _ := strings.Cut(text, " ")
	seq, err := strconv.ParseInt(number, 10, 64)
	var order orders.ID
	if err == nil {
		order, err = orders.ParseID(id)
	}
	if err != nil || seq < r.lastEvent.Seq {
		return r.lastEvent, nil //nolint:nilerr // an unreadable value is as good as none
	}
	return storage.LastEvent{Seq: seq, Order: order}, nil
}
