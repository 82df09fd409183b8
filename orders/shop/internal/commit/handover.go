package commit

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
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
)

// Keeper brings the orders that this process remembers into the database.
type Keeper struct {
	*core.Core
	sales     *catalog.Watch
	Ledger    *ledger.Ledger
	notifier  *reading.Notifier
	enqueuer  *queue.Enqueuer
	committer *Committer
	turning   *liveness.Pulse // of handOvers
}

// NewKeeper returns the part, whose loop beats turning.
func NewKeeper(
	c *core.Core, sales *catalog.Watch, l *ledger.Ledger, notifier *reading.Notifier, enqueuer *queue.Enqueuer, committer *Committer,
	turning *liveness.Pulse,
) *Keeper {
	return &Keeper{Core: c, sales: sales, Ledger: l, notifier: notifier, enqueuer: enqueuer, committer: committer, turning: turning}
}

// Turn is how long a turn of handOvers may take, besides the time that the database takes.
const Turn = liveness.LeaseFor

// HandOvers hands over the orders that this process remembers of sales that are being recovered, until ctx ends.
func (k *Keeper) HandOvers(ctx context.Context) error {
	acknowledged := make(map[string]storage.Lead)
	return periodic.Woken(ctx, time.Second, k.Handing, func() {
		k.turning.Beat(Turn)
		defer k.turning.Beat(Turn)
		for id, l := range k.sales.Catalog.Load().Sales {
			lead := storage.Lead{Sale: id, Epoch: l.Epoch, Token: l.EpochToken}
			if l.EpochFloor == l.Epoch || acknowledged[id] == lead {
				continue
			}
			if err := k.handOver(ctx, l); err != nil {
				if ctx.Err() == nil {
					k.Logger.WarnContext(ctx, "what is remembered could not be handed over yet", slog.String("sale", id), slog.Any("error", err))
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
func (k *Keeper) handOver(ctx context.Context, l *catalog.Listing) error {
	remembered := k.Ledger.Enter(l.ID, l.Epoch)
	lost, err := k.Ledger.Lost(ctx, l.ID, l.Epoch, func(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error) {
		k.turning.Beat(commitTime + Turn)
		return k.Store.Statuses(ctx, ids)
	})
	if err != nil {
		return err
	}
	var late []orders.Reservation
	for part := range slices.Chunk(slices.Concat(remembered, lost), commitMax) {
		k.turning.Beat(commitTime + Turn)
		left, err := k.committer.CommitAll(ctx, part)
		if err != nil {
			return err
		}
		late = append(late, left...)
	}
	k.turning.Beat(commitTime + Turn)
	err = k.Store.Acknowledge(ctx, l.ID, l.Epoch, k.Process, late)
	k.turning.Beat(Turn)
	if err == nil && len(remembered)+len(lost) > 0 {
		k.Logger.InfoContext(ctx, "remembered orders were handed over", slog.String("sale", l.ID), slog.Int64("epoch", l.Epoch),
			slog.Int("orders", len(remembered)), slog.Int("committed_again", len(lost)), slog.Int("late", len(late)))
	}
	return err
}

func (k *Keeper) RememberedFor() time.Duration {
	since := k.Ledger.Since()
	return time.Since(since)
}

// drainMost is how long Drain tries to commit.
const drainMost = 5 * time.Second

func (k *Keeper) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainMost)
	defer cancel()
	for {
		remembered := k.Ledger.All()
		left, err := k.committer.CommitAll(ctx, remembered)
		if err == nil && len(left) == 0 {
			return nil
		}
		if !periodic.Pause(ctx, 100*time.Millisecond) {
			return errors.Join(fmt.Errorf("orders: %d accepted orders are only in the outbox", len(remembered)), err)
		}
	}
}

// AskForCommits asks the database about orders of this process whose commit was not reported, until ctx ends.
func (k *Keeper) AskForCommits(ctx context.Context) error {
	return periodic.Woken(ctx, time.Second, k.Asking, func() {
		for k.askForSome(ctx) == askAtOnce && ctx.Err() == nil {
		}
	})
}

// askAtOnce is the maximum number of orders in one query.
const askAtOnce = 1000

// askForSome asks about at most askAtOnce overdue orders, and returns how many it asked about.
func (k *Keeper) askForSome(ctx context.Context) int {
	late := k.Ledger.Overdue(3*time.Second, askAtOnce)
	if len(late) == 0 {
		return 0
	}
	ids := make([]orders.ID, len(late))
	for i := range late {
		ids[i] = late[i].ID
	}
	found, err := k.Store.Statuses(ctx, ids)
	if err != nil {
		return 0 // asked again soon
	}
	uncommitted := make(map[string][]orders.Reservation) // by the outbox that should have them
	for _, r := range late {
		if status, ok := found[r.ID]; ok {
			k.notifier.Receive(reading.Notification{Orders: []reading.Change{{ID: r.ID, Status: status}}})
		} else {
			outbox := k.ItemKeys(r.Sale, r.Item, r.Epoch)[core.OutboxKey]
			uncommitted[outbox] = append(uncommitted[outbox], r)
		}
	}
	for outbox, list := range uncommitted {
		k.offerLost(ctx, outbox, list)
	}
	return len(late)
}

// offerLost enqueues again the orders that are not in their outbox: this process has the only copy left.
func (k *Keeper) offerLost(ctx context.Context, outbox string, list []orders.Reservation) {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID.String()
	}
	scores, err := k.Base.ZMScore(ctx, outbox, ids...).Result()
	if err != nil {
		return // asked again soon
	}
	for i, score := range scores {
		if score == 0 { // not in the outbox: scores are times in Unix ms, never 0
			k.enqueuer.Offer(list[i], trace.SpanContext{})
		}
	}
}
