package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/errsummary"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
)

const (
	sweepInterval = time.Second
	sweepItems    = 250             // a turn, beside those that had orders in the turn before: the outboxes of most of thousands are empty
	sweepBatches  = 4               // per item and turn: the sweeper supplements the queue and does not replace it
	sweepPause    = 5 * time.Second // after a failed commit or reading, to spare a slow server
)

// sweep commits orders that have been in the outbox for sweepAge, until ctx ends.
func (w *Worker) sweep(ctx context.Context) error {
	var rotation catalog.Rotation
	var busy []*catalog.Item
	var pausedUntil time.Time
	return periodic.Woken(ctx, sweepInterval, nil, func() {
		if time.Now().Before(pausedUntil) || w.Foreign.Load() {
			return
		}
		all := w.sales.Remembered()
		items, _, err := w.sales.Outboxes(ctx, withBusy(rotation.Turn(all, sweepItems), all, busy))
		busy = items
		if err != nil && ctx.Err() == nil {
			w.Logger.WarnContext(ctx, "outboxes could not be read", slog.Any("error", err))
			if len(items) == 0 {
				pausedUntil = time.Now().Add(sweepPause)
			}
		}
		logged := make(map[string]bool) // a server of many items that refuses to write is one message
		for _, ci := range items {
			err := w.sweepItem(ctx, ci)
			if err == nil || ctx.Err() != nil {
				continue
			}
			if !logged[err.Error()] {
				logged[err.Error()] = true
				w.Logger.WarnContext(ctx, "the outbox could not be swept", slog.String("sale", ci.Sale.ID), slog.String("item", ci.Item.ID),
					slog.Any("error", err))
			}
			if errors.Is(err, orders.ErrUnavailable) && !errors.Is(err, errNotClaimed) { // the database is the same for all items
				pausedUntil = time.Now().Add(sweepPause)
				return
			}
		}
	})
}

// withBusy adds to a part those of all items that are in busy, as they are now.
func withBusy(part, all, busy []*catalog.Item) []*catalog.Item {
	numbers := make(map[int]bool, len(busy))
	for _, ci := range busy {
		numbers[ci.Item.Number] = true
	}
	for _, ci := range part {
		delete(numbers, ci.Item.Number)
	}
	return append(slices.Clone(part), slices.DeleteFunc(slices.Clone(all), func(ci *catalog.Item) bool { return !numbers[ci.Item.Number] })...)
}

var errNotClaimed = errors.New("orders: the server of the item refuses to hand over its outbox")

// sweepItem is one turn for one item. It returns errNotClaimed, or an error of the commits.
func (w *Worker) sweepItem(ctx context.Context, ci *catalog.Item) error {
	for range sweepBatches {
		records := lua.Claim.Run(ctx, w.Batched, ci.Keys, queue.SweepAge.Milliseconds(), commitMax)
		claimed, err := records.Len(), records.Err()
		if errors.Is(err, redis.Nil) {
			err = w.sales.Forgotten(ci)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errNotClaimed, core.Unavailable(err))
		}
		batch := make([]orders.Reservation, 0, claimed)
		for records.Len() > 0 {
			text, _ := records.Next().(string) // nil: the hash of accepted orders lacks it
			r, err := orders.ParseReservation([]byte(text))
			if errors.Is(err, orders.ErrLaterVersion) {
				w.Measures.NewerVersion(core.NewerRecord, 1)
				continue
			}
			if err != nil {
				w.Logger.ErrorContext(ctx, "an outbox entry has no reservation", slog.String("sale", ci.Sale.ID), slog.String("item", ci.Item.ID),
					slog.Any("error", err))
				continue
			}
			batch = append(batch, r)
		}
		if err := errsummary.Join(w.committer.commitBatch(context.WithoutCancel(ctx), batch, nil)...); err != nil {
			return err
		}
		if claimed < commitMax {
			return nil
		}
	}
	return nil
}
