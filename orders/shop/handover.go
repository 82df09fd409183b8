package shop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
)

// keeper brings the orders that this process remembers into the database.
type keeper struct {
	*core
	sales     *catalogWatch
	ledger    *ledger.Ledger
	notifier  *notifier
	enqueuer  *enqueuer
	committer *committer
	turning   liveness.Pulse // of handOvers
}

// turn is how long a turn of handOvers may take, besides the time that the database takes.
const turn = liveness.LeaseFor

// handOvers hands over the orders that this process remembers of sales that are being recovered, until ctx ends.
func (k *keeper) handOvers(ctx context.Context) error {
	acknowledged := make(map[string]storage.Lead)
	return periodic.Woken(ctx, time.Second, k.handing, func() {
		k.turning.Beat(turn)
		defer k.turning.Beat(turn)
		for id, l := range k.sales.catalog.Load().sales {
			lead := storage.Lead{Sale: id, Epoch: l.Epoch, Token: l.EpochToken}
			if l.EpochFloor == l.Epoch || acknowledged[id] == lead {
				continue
			}
			if err := k.handOver(ctx, l); err != nil {
				if ctx.Err() == nil {
					k.logger.WarnContext(ctx, "what is remembered could not be handed over yet", slog.String("sale", id), slog.Any("error", err))
				}
				continue
			}
			acknowledged[id] = lead
		}
	})
}

// handOver commits the orders that this process remembers of earlier epochs, and acknowledges that in the database. From then
// on it ignores replies from earlier epochs. Committed orders are committed again if the database has lost
// them.
func (k *keeper) handOver(ctx context.Context, l *listing) error {
	remembered := k.ledger.Enter(l.ID, l.Epoch)
	lost, err := k.ledger.Lost(ctx, l.ID, l.Epoch, func(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error) {
		k.turning.Beat(commitTime + turn)
		return k.store.Statuses(ctx, ids)
	})
	if err != nil {
		return err
	}
	var late []orders.Reservation
	for part := range slices.Chunk(slices.Concat(remembered, lost), commitMax) {
		k.turning.Beat(commitTime + turn)
		left, err := k.committer.commitAll(ctx, part)
		if err != nil {
			return err
		}
		late = append(late, left...)
	}
	k.turning.Beat(commitTime + turn)
	err = k.store.Acknowledge(ctx, l.ID, l.Epoch, k.process, late)
	k.turning.Beat(turn)
	if err == nil && len(remembered)+len(lost) > 0 {
		k.logger.InfoContext(ctx, "remembered orders were handed over", slog.String("sale", l.ID), slog.Int64("epoch", l.Epoch),
			slog.Int("orders", len(remembered)), slog.Int("committed_again", len(lost)), slog.Int("late", len(late)))
	}
	return err
}

func (k *keeper) RememberedFor() time.Duration {
	since := k.ledger.Since()
	return time.Since(since)
}

// drainMost is how long Drain tries to commit.
const drainMost = 5 * time.Second

func (k *keeper) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainMost)
	defer cancel()
	for {
		remembered := k.ledger.All()
		left, err := k.committer.commitAll(ctx, remembered)
		if err == nil && len(left) == 0 {
			return nil
		}
		if !periodic.Pause(ctx, 100*time.Millisecond) {
			return errors.Join(fmt.Errorf("orders: %d accepted orders are only in the outbox", len(remembered)), err)
		}
	}
}

// askForCommits asks the database about orders of this process whose commit was not reported, until ctx ends.
func (k *keeper) askForCommits(ctx context.Context) error {
	return periodic.Woken(ctx, time.Second, k.asking, func() {
		for k.askForSome(ctx) == askAtOnce && ctx.Err() == nil {
		}
	})
}

// askAtOnce is the maximum number of orders in one query.
const askAtOnce = 1000

// askForSome asks about at most askAtOnce overdue orders, and returns how many it asked about.
func (k *keeper) askForSome(ctx context.Context) int {
	late := k.ledger.Overdue(3*time.Second, askAtOnce)
	if len(late) == 0 {
		return 0
	}
	ids := make([]orders.ID, len(late))
	for i := range late {
		ids[i] = late[i].ID
	}
	found, err := k.store.Statuses(ctx, ids)
	if err != nil {
		return 0 // asked again soon
	}
	uncommitted := make(map[string][]orders.Reservation) // by the outbox that should have them
	for _, r := range late {
		if status, ok := found[r.ID]; ok {
			k.notifier.receive(notification{Orders: []change{{ID: r.ID, Status: status}}})
		} else {
			outbox := k.itemKeys(r.Sale, r.Item, r.Epoch)[outboxKey]
			uncommitted[outbox] = append(uncommitted[outbox], r)
		}
	}
	for outbox, list := range uncommitted {
		k.offerLost(ctx, outbox, list)
	}
	return len(late)
}

// offerLost enqueues again the orders that are not in their outbox: this process has the only copy left.
func (k *keeper) offerLost(ctx context.Context, outbox string, list []orders.Reservation) {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID.String()
	}
	scores, err := k.base.ZMScore(ctx, outbox, ids...).Result()
	if err != nil {
		return // asked again soon
	}
	for i, score := range scores {
		if score == 0 { // not in the outbox: scores are times in Unix ms, never 0
			k.enqueuer.offer(list[i], trace.SpanContext{})
		}
	}
}
