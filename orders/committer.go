package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/errsummary"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
)

const (
	commitMax  = 500 // orders in a transaction, besides the other orders of the last task
	committers = 2   // while one waits for the disk, the next fills its batch
	commitTime = 30 * time.Second

	// An order needs another round when its epoch is over or one of its units is taken.
	roundsMax = 4
)

// committer writes reservations to the database. It combines the orders of many tasks into few transactions: orders that arrive
// during one transaction form the next. It stays apart from package batch because a submission is many orders.
type committer struct {
	*core
	sales    *catalogWatch
	notifier *notifier
	reserver *reserver
	in       chan submission
}

// submission is the orders of a task.
type submission struct {
	list []Reservation
	from trace.SpanContext // of the task
	done chan<- []error    // one for each order; of capacity one
}

// commit returns one error per order: nil for orders that are in the database, with whatever status. The second result is the
// cause if ctx ends.
func (c *committer) commit(ctx context.Context, list []Reservation) ([]error, error) {
	done := make(chan []error, 1)
	select {
	case c.in <- submission{list, trace.SpanContextFromContext(ctx), done}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case errs := <-done:
		return errs, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx) // they may still be committed; repeating that is harmless
	}
}

func (c *committer) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range committers {
		g.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case first := <-c.in:
					c.flush(context.WithoutCancel(ctx), c.gather(first))
				}
			}
		})
	}
	return g.Wait()
}

// gather adds the submissions that are already waiting.
func (c *committer) gather(first submission) []submission {
	batch, orders := []submission{first}, len(first.list)
	for orders < commitMax {
		select {
		case sub := <-c.in:
			batch = append(batch, sub)
			orders += len(sub.list)
		default:
			return batch
		}
	}
	return batch
}

func (c *committer) flush(ctx context.Context, batch []submission) {
	var list []Reservation
	var from []trace.SpanContext
	for i := range batch {
		list = append(list, batch[i].list...)
		if batch[i].from.IsSampled() {
			from = append(from, batch[i].from)
		}
	}
	errs := c.commitBatch(ctx, list, from)
	for _, sub := range batch {
		sub.done <- errs[:len(sub.list)]
		errs = errs[len(sub.list):]
	}
}

// commitBatch writes reservations to the database, clears the outbox, and notifies all processes, in this order: until the row
// exists, the outbox entry guarantees redelivery. It returns one error per reservation. The batch's span is linked to from.
func (c *committer) commitBatch(ctx context.Context, batch []Reservation, from []trace.SpanContext) []error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	errs := make([]error, len(batch))
	ctx, span := c.traceBatch(ctx, len(batch), from)
	defer func() { endSpan(span, errsummary.Join(errs...)) }()
	if c.foreign.Load() {
		for i := range errs {
			errs[i] = errForeign
		}
		return errs
	}
	todo := make([]int, 0, len(batch))
	first := make(map[ID]int, len(batch))
	for i := range batch {
		if _, twice := first[batch[i].ID]; !twice {
			first[batch[i].ID] = i
			todo = append(todo, i)
		}
	}
	for round := 0; len(todo) > 0; round++ {
		if round == roundsMax {
			for _, i := range todo {
				errs[i] = fmt.Errorf("%w: order %s found no place in %d rounds", ErrRecovering, batch[i].ID, roundsMax)
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

// commitAll commits reservations of earlier epochs during a hand-over. It
// returns those that have to be reserved again: the database gave their units to
// other orders, or their epoch was over before.
func (c *committer) commitAll(ctx context.Context, list []Reservation) (late []Reservation, err error) {
	for part := range slices.Chunk(list, commitMax) {
		for i, err := range c.commitBatch(ctx, slices.Clone(part), nil) {
			switch {
			case errors.Is(err, ErrRecovering):
				late = append(late, part[i])
			case err != nil:
				return nil, err
			}
		}
	}
	return late, nil
}

// commitRound writes the reservations at todo, and returns those that changed and need another round.
func (c *committer) commitRound(ctx context.Context, batch []Reservation, todo []int, errs []error) (again []int) {
	part := make([]Reservation, len(todo))
	for j, i := range todo {
		// The order lost a unit to another order and none was free. reassign.lua stored the rest, which a later delivery finds.
		if r := &batch[i]; len(r.Units) < r.Quantity && r.Reason == "" {
			r.Reason = ReasonRecoveredLate
		}
		part[j] = batch[i]
	}
	verdicts, failures := c.write(ctx, part)
	failpoint.Hit(failpoint.AfterCommit)
	var settled []settlement
	var unsettled []int // indices into todo
	for j, i := range todo {
		switch v := verdicts[j]; {
		case failures[j] != nil:
			errs[i] = failures[j]
		case v.Stale || len(v.Taken) > 0:
			unsettled = append(unsettled, j)
		default:
			settled = append(settled, settlement{batch[i], v})
		}
	}
	c.settle(ctx, settled) // first, so that these orders do not wait for those of another sale
	settled = nil
	for _, j := range unsettled {
		i := todo[j]
		r, status, err := &batch[i], Status(""), error(nil)
		if verdicts[j].Stale {
			*r, status, err = c.reserveLate(ctx, *r)
		} else {
			*r, err = c.reassign(ctx, *r, verdicts[j].Taken)
		}
		switch {
		case err != nil:
			errs[i] = err
		case status != "":
			settled = append(settled, settlement{*r, Verdict{Status: status, Repeated: true}})
		default:
			again = append(again, i)
		}
	}
	c.settle(ctx, settled)
	return again
}

// write stores reservations in one transaction. When the database refuses the data, it halves the batch until the refused order
// is alone, and stores that one as a dead letter. The other orders of the batch are not affected.
func (c *committer) write(ctx context.Context, part []Reservation) ([]Verdict, []error) {
	began := time.Now()
	verdicts, err := c.store.Commit(ctx, part)
	c.opts.Measures.Batch(len(part), time.Since(began), err)
	failures := make([]error, len(part))
	switch {
	case err == nil:
		c.commits.Beat(provedFor)
		return verdicts, failures
	case errors.Is(err, ErrPoison) && len(part) > 1:
		half := len(part) / 2
		left, leftErrs := c.write(ctx, part[:half])
		right, rightErrs := c.write(ctx, part[half:])
		return append(left, right...), append(leftErrs, rightErrs...)
	case errors.Is(err, ErrPoison):
		c.opts.Logger.ErrorContext(ctx, "the database refuses an order; it is a dead letter now",
			slog.String("order_id", c.Shown(part[0].ID, part[0].Buyer).String()), slog.Any("error", err))
		return []Verdict{{Status: StatusAccepted}}, []error{c.store.AddDeadLetter(ctx, part[0], err.Error())}
	}
	for i := range failures {
		failures[i] = err
	}
	return make([]Verdict, len(part)), failures
}

type settlement struct {
	r Reservation
	v Verdict
}

// settle clears the outbox of orders that the database has, and notifies all processes. The sweeper repeats what fails here;
// repeating is harmless.
func (c *committer) settle(ctx context.Context, settled []settlement) {
	if len(settled) == 0 {
		return
	}
	type place struct {
		sale, item string
		epoch      int64
	}
	ids := make(map[place][]any)
	var changes notification
	now, _ := c.clock.now()
	for i := range settled {
		r, v := &settled[i].r, settled[i].v
		at := place{r.Sale, r.Item, r.Epoch}
		if !v.Status.OwnsUnits() {
			c.releaseRejected(ctx, r, v)
		} else {
			ids[at] = append(ids[at], r.ID.String())
		}
		if v.Status == StatusConfirmed && !v.Repeated {
			c.opts.Measures.Confirmed(max(0, now.Sub(time.UnixMilli(r.AcceptedMS))))
		}
		changes.Orders = append(changes.Orders, change{r.ID, v.Status, v.Repeated})
	}
	for at, list := range ids {
		ci := c.sales.inEpoch(at.sale, at.item, at.epoch)
		settled, err := settleScript.Run(ctx, c.rdb, ci.keys, list...).Int()
		if settled < 0 {
			err = c.forgotten(ci)
		}
		if err != nil {
			c.opts.Logger.WarnContext(ctx, "committed orders stay in the outbox until the sweeper comes", slog.String("sale", at.sale), slog.String("item", at.item), slog.Any("error", err))
		}
	}
	c.notifier.publish(ctx, changes)
}

// releaseRejected releases what an order holds in Redis that was rejected, or that ended while it was being reserved again.
func (c *committer) releaseRejected(ctx context.Context, r *Reservation, v Verdict) {
	ci := c.sales.inEpoch(r.Sale, r.Item, r.Epoch)
	reply, err := rejectScript.Run(ctx, c.rdb, ci.keys, r.ID.String(), r.BuyerHash, r.KeyHash, r.Quantity, c.seen(ci)).Slice()
	if err == nil && len(reply) == 0 {
		err = c.forgotten(ci)
	}
	units := int64(0)
	if err == nil {
		d := decoder{reply: reply}
		ci.saw(d.string())
		units = d.int64()
		err = d.err
	}
	if err != nil {
		c.opts.Logger.WarnContext(ctx, "a rejected order keeps its units until the sweeper comes",
			slog.String("order_id", c.Shown(r.ID, r.Buyer).String()), slog.Any("error", err))
	}
	if units > 0 {
		c.notifier.publish(ctx, notification{Item: r.ID.item()}) // they are on sale again
	}
	if v.Status != StatusRejected {
		return
	}
	c.opts.Logger.WarnContext(ctx, "an accepted order was rejected", slog.String("order_id", c.Shown(r.ID, r.Buyer).String()), slog.String("reason", string(v.Reason)))
}
