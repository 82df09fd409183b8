// Package commit writes accepted orders to the database, whether they come from the queue, the outbox or this process, and then
// changes them: payments, cancellations, expiries, returns of units, replays.
package commit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/errsummary"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
	"github.com/tidegate/tidegate/orders/shop/internal/reserve"
)

const (
	commitMax  = 500 // orders in a transaction
	committers = 2   // while one waits for the disk, the next fills its batch
	commitTime = 30 * time.Second

	// An order needs another round when its epoch is over or one of its units is taken.
	roundsMax = 4
)

// Committer writes reservations to the database. It combines the orders of many tasks into few transactions: orders that arrive
// during one transaction form the next.
type Committer struct {
	*core.Core
	sales    *catalog.Watch
	notifier *reading.Notifier
	reserver *reserve.Reserver
	batches  *batch.Batcher[submission, []error] // one error for each order
}

// NewCommitter returns the part. It asks the reserver for units of late orders.
func NewCommitter(c *core.Core, sales *catalog.Watch, notifier *reading.Notifier, reserver *reserve.Reserver) *Committer {
	cm := &Committer{Core: c, sales: sales, notifier: notifier, reserver: reserver}
	cm.batches = batch.New(commitMax, committers, cm.flush).Weigh(commitMax, submission.orders)
	return cm
}

// submission is the orders of a task.
type submission struct {
	list []orders.Reservation
	from trace.SpanContext // of the task
}

func (s submission) orders() int { return len(s.list) }

// commit returns one error per order: nil for orders that are in the database, with whatever status. After the second result they may
// still be committed; repeating that is harmless.
func (c *Committer) commit(ctx context.Context, list []orders.Reservation) ([]error, error) {
	return c.batches.Do(ctx, submission{list, trace.SpanContextFromContext(ctx)})
}

func (c *Committer) flush(ctx context.Context, calls []*batch.Call[submission, []error]) {
	var list []orders.Reservation
	var from []trace.SpanContext
	for _, call := range calls {
		list = append(list, call.In.list...)
		if call.In.from.IsSampled() {
			from = append(from, call.In.from)
		}
	}
	errs := c.commitBatch(ctx, list, from)
	for _, call := range calls {
		n := len(call.In.list)
		call.Out, errs = errs[:n], errs[n:]
	}
}

// commitBatch writes reservations to the database, clears the outbox, and notifies the processes that sell, in this order: until the row
// exists, the outbox entry guarantees redelivery. It returns one error per reservation. The batch's span is linked to from.
func (c *Committer) commitBatch(ctx context.Context, batch []orders.Reservation, from []trace.SpanContext) []error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	errs := make([]error, len(batch))
	ctx, span := c.traceBatch(ctx, len(batch), from)
	defer func() { core.EndSpan(span, errsummary.Join(errs...)) }()
	if c.Foreign.Load() {
		for i := range errs {
			errs[i] = core.ErrForeign
		}
		return errs
	}
	todo := make([]int, 0, len(batch))
	first := make(map[orders.ID]int, len(batch))
	for i := range batch {
		if _, twice := first[batch[i].ID]; !twice {
			first[batch[i].ID] = i
			todo = append(todo, i)
		}
	}
	for round := 0; len(todo) > 0; round++ {
		if round == roundsMax {
			for _, i := range todo {
				errs[i] = fmt.Errorf("%w: order %s found no place in %d rounds", orders.ErrRecovering, c.Shown(batch[i].ID, batch[i].Buyer), roundsMax)
			}
			break
		}
		todo = c.commitRound(ctx, batch, todo, errs)
	}
	for i := range batch { // duplicates get the result of the first, even if their units differ
		errs[i] = errs[first[batch[i].ID]]
	}
	return errs
}

// CommitAll commits reservations of earlier epochs during a hand-over. It
// returns those that have to be reserved again: the database gave their units to
// other orders, or their epoch was over before.
func (c *Committer) CommitAll(ctx context.Context, list []orders.Reservation) (late []orders.Reservation, err error) {
	for part := range slices.Chunk(list, commitMax) {
		for i, err := range c.commitBatch(ctx, slices.Clone(part), nil) {
			switch {
			case errors.Is(err, orders.ErrRecovering):
				late = append(late, part[i])
			case err != nil:
				return nil, err
			}
		}
	}
	return late, nil
}

// commitRound writes the reservations at todo, and returns those that changed and need another round.
func (c *Committer) commitRound(ctx context.Context, batch []orders.Reservation, todo []int, errs []error) (again []int) {
	part := make([]*written, len(todo))
	for j, i := range todo {
		// The order lost a unit to another order and none was free. reassign.lua stored the rest, which a later delivery finds.
		if r := &batch[i]; len(r.Units) < r.Quantity && r.Reason == "" {
			r.Reason = orders.ReasonRecoveredLate
		}
		part[j] = &written{r: &batch[i]}
	}
	c.write(ctx, part)
	failpoint.Hit(failpoint.AfterCommit)
	var settled []settlement
	var unsettled []int // indices into todo
	for j, i := range todo {
		switch w := part[j]; {
		case w.err != nil:
			errs[i] = w.err
		case w.v.Stale || len(w.v.Taken) > 0:
			unsettled = append(unsettled, j)
		default:
			settled = append(settled, settlement{batch[i], w.v})
		}
	}
	c.settle(ctx, settled) // first, so that these orders do not wait for those of another sale
	settled = nil
	for _, j := range unsettled {
		i := todo[j]
		r, status, err := &batch[i], orders.Status(""), error(nil)
		if part[j].v.Stale {
			*r, status, err = c.reserveLate(ctx, *r)
		} else {
			*r, err = c.reassign(ctx, *r, part[j].v.Taken)
		}
		switch {
		case err != nil:
			errs[i] = err
		case status != "":
			settled = append(settled, settlement{*r, storage.Verdict{Status: status, Repeated: true}})
		default:
			again = append(again, i)
		}
	}
	c.settle(ctx, settled)
	return again
}

// A written is a reservation on its way into the database, and what became of it.
type written struct {
	r   *orders.Reservation
	v   storage.Verdict
	err error
}

// write stores reservations in one transaction. When the database refuses the data, it halves the batch until the refused order
// is alone, and stores that one as a dead letter. The other orders of the batch are not affected.
func (c *Committer) write(ctx context.Context, list []*written) {
	part := make([]orders.Reservation, len(list))
	for i, w := range list {
		part[i] = *w.r
	}
	began := time.Now()
	verdicts, err := c.Store.Commit(ctx, part)
	c.Measures.Batch(len(part), time.Since(began), err)
	poison := errors.Is(err, orders.ErrPoison)
	switch {
	case err == nil:
		c.Commits.Beat(provedFor)
		for i, w := range list {
			w.v = verdicts[i]
		}
	case poison && core.Halve(list, func(half []*written) { c.write(ctx, half) }):
	case poison:
		c.Logger.ErrorContext(ctx, "the database refuses an order; it is a dead letter now",
			slog.String("order_id", c.Shown(part[0].ID, part[0].Buyer).String()), slog.Any("error", err))
		list[0].v = storage.Verdict{Status: orders.StatusAccepted}
		list[0].err = c.Store.AddDeadLetter(ctx, part[0], err.Error())
	default:
		for _, w := range list {
			w.err = err
		}
	}
}

type settlement struct {
	r orders.Reservation
	v storage.Verdict
}

// settle clears the outbox of orders that the database has, and notifies the processes that sell. The sweeper repeats what fails here;
// repeating is harmless.
func (c *Committer) settle(ctx context.Context, settled []settlement) {
	if len(settled) == 0 {
		return
	}
	type place struct {
		sale, item string
		epoch      int64
	}
	at := make(map[place]int) // index of its call
	var calls []catalog.Call
	var changes reading.Notification
	now, _ := c.Clock.Now()
	for i := range settled {
		r, v := &settled[i].r, settled[i].v
		if !v.Status.OwnsUnits() {
			c.releaseRejected(ctx, r, v)
		} else {
			p := place{r.Sale, r.Item, r.Epoch}
			n, ok := at[p]
			if !ok {
				n = len(calls)
				at[p] = n
				calls = append(calls, catalog.Call{Item: c.sales.InEpoch(r.Sale, r.Item, r.Epoch)})
			}
			calls[n].Args = append(calls[n].Args, r.ID.String())
		}
		if v.Status == orders.StatusConfirmed && !v.Repeated {
			c.Measures.Confirmed(max(0, now.Sub(time.UnixMilli(r.AcceptedMS))))
		}
		changes.Orders = append(changes.Orders, reading.Change{ID: r.ID, Status: v.Status, Again: v.Repeated})
	}
	var notified *redis.IntCmd
	replies := c.sales.RunThen(ctx, lua.Settle, calls, func(p redis.Pipeliner) { notified = c.notifier.Queue(ctx, p, changes) })
	c.notifier.Sent(ctx, notified)
	for i, reply := range replies {
		ci := calls[i].Item
		settled, err := reply.Int(), reply.Err()
		if settled < 0 {
			err = c.sales.Forgotten(ci)
		}
		if err != nil {
			c.Logger.WarnContext(ctx, "committed orders stay in the outbox until the sweeper comes", slog.String("sale", ci.Sale.ID),
				slog.String("item", ci.Item.ID), slog.Any("error", err))
		}
	}
}

// releaseRejected releases what an order holds in Redis that was rejected, or that ended while it was being reserved again.
func (c *Committer) releaseRejected(ctx context.Context, r *orders.Reservation, v storage.Verdict) {
	ci := c.sales.InEpoch(r.Sale, r.Item, r.Epoch)
	reply := lua.Reject.Run(ctx, c.Batched, ci.Keys, r.ID.String(), r.BuyerHash, r.KeyHash, r.Quantity, ci.SeenBy(c.Writer))
	err := c.sales.Lost(ci, reply)
	ci.Saw(reply.Text())
	units := reply.Int()
	if err = cmp.Or(err, reply.Err()); err != nil {
		c.Logger.WarnContext(ctx, "a rejected order keeps its units until the sweeper comes",
			slog.String("order_id", c.Shown(r.ID, r.Buyer).String()), slog.Any("error", err))
	}
	if units > 0 {
		c.notifier.Publish(ctx, reading.Notification{Item: r.ID.Item()}) // they are on sale again
	}
	if v.Status != orders.StatusRejected {
		return
	}
	c.Logger.WarnContext(ctx, "an accepted order was rejected", slog.String("order_id", c.Shown(r.ID, r.Buyer).String()),
		slog.String("reason", string(v.Reason)))
}
