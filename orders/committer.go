package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/orders/internal/failpoint"
)

const (
	batchMax   = 500
	batchWait  = 2 * time.Millisecond // for more orders to share a transaction
	committers = 2                    // while one waits for the disk, the next fills its batch
	commitTime = 30 * time.Second

	// An order may need a further round when its epoch or a unit turned out to be taken.
	roundsMax = 4
)

// committer gathers reservations from many handlers into few transactions.
type committer struct {
	s  *Service
	in chan submission
}

type submission struct {
	r    Reservation
	from trace.SpanContext // of its task
	done chan<- error      // of capacity one
}

func newCommitter(s *Service) *committer {
	return &committer{s: s, in: make(chan submission)}
}

// commit returns nil when the order is in the database, whatever became of it there.
func (c *committer) commit(ctx context.Context, r Reservation) error {
	done := make(chan error, 1)
	select {
	case c.in <- submission{r, trace.SpanContextFromContext(ctx), done}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx) // it may be committed all the same; a repetition changes nothing
	}
}

func (c *committer) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range committers {
		g.Go(func() error {
			for {
				batch := c.gather(ctx)
				if len(batch) == 0 {
					return ctx.Err()
				}
				c.flush(context.WithoutCancel(ctx), batch)
			}
		})
	}
	return g.Wait()
}

// gather waits for a first submission, and shortly for more. It returns none when ctx ends.
func (c *committer) gather(ctx context.Context) []submission {
	var batch []submission
	select {
	case <-ctx.Done():
		return nil
	case sub := <-c.in:
		batch = append(batch, sub)
	}
	timer := time.NewTimer(batchWait)
	defer timer.Stop()
	for len(batch) < batchMax {
		select {
		case sub := <-c.in:
			batch = append(batch, sub)
		case <-timer.C:
			return batch
		}
	}
	return batch
}

func (c *committer) flush(ctx context.Context, batch []submission) {
	reservations := make([]Reservation, len(batch))
	var from []trace.SpanContext
	for i := range batch {
		reservations[i] = batch[i].r
		if batch[i].from.IsSampled() {
			from = append(from, batch[i].from)
		}
	}
	errs := c.s.commitBatch(ctx, reservations, from)
	for i := range batch {
		batch[i].done <- errs[i]
	}
}

// commitBatch writes reservations to the database, clears the outbox, and
// tells everybody, in this order: until the row is there, the outbox entry is
// what makes the order come back. It returns one error each. Traces in which
// the batch is wanted may be named by from.
func (s *Service) commitBatch(ctx context.Context, batch []Reservation, from []trace.SpanContext) []error {
	if len(batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	errs := make([]error, len(batch))
	ctx, span := s.traceBatch(ctx, len(batch), from)
	defer func() { endSpan(span, errors.Join(errs...)) }()
	todo := make([]int, 0, len(batch))
	seen := make(map[ID]struct{}, len(batch))
	for i := range batch {
		if _, twice := seen[batch[i].ID]; twice { // perhaps with other units
			errs[i] = fmt.Errorf("%w: order %s is under way", ErrUnavailable, batch[i].ID)
			continue
		}
		seen[batch[i].ID] = struct{}{}
		todo = append(todo, i)
	}
	for round := 0; len(todo) > 0; round++ {
		if round == roundsMax {
			for _, i := range todo {
				errs[i] = fmt.Errorf("%w: order %s found no place in %d rounds", ErrRecovering, batch[i].ID, roundsMax)
			}
			break
		}
		todo = s.commitRound(ctx, batch, todo, errs)
	}
	return errs
}

// commitRound writes the reservations at todo, and returns those that changed and need another round.
func (s *Service) commitRound(ctx context.Context, batch []Reservation, todo []int, errs []error) (again []int) {
	part := make([]Reservation, len(todo))
	for j, i := range todo {
		// It lost a unit to another order and none was free: what reseat.lua left of it is found by whoever comes next.
		if r := &batch[i]; len(r.Units) < r.Quantity && r.Reason == "" {
			r.Reason = ReasonRecoveredLate
		}
		part[j] = batch[i]
	}
	verdicts, failures := s.write(ctx, part)
	var settled []settlement
	for j, i := range todo {
		r, v := &batch[i], verdicts[j]
		var err error
		switch {
		case failures[j] != nil:
			err = failures[j]
		case v.Stale:
			var status Status
			if *r, status, err = s.readmit(ctx, *r); err == nil && status != "" {
				settled = append(settled, settlement{*r, Verdict{Status: status, Repeated: true}})
			} else if err == nil {
				again = append(again, i)
			}
		case len(v.Taken) > 0:
			if *r, err = s.reseat(ctx, *r, v.Taken); err == nil {
				again = append(again, i)
			}
		default:
			settled = append(settled, settlement{*r, v})
		}
		errs[i] = err
	}
	failpoint.Hit(failpoint.AfterCommit)
	s.settle(ctx, settled)
	return again
}

// write stores reservations in one transaction. When the database refuses the
// data, it halves them until the one it refuses stands alone, and buries that:
// no order fails for its neighbour.
func (s *Service) write(ctx context.Context, part []Reservation) ([]Verdict, []error) {
	began := time.Now()
	verdicts, err := s.store.Commit(ctx, part)
	s.opts.Measures.Batch(len(part), time.Since(began), err)
	failures := make([]error, len(part))
	switch {
	case err == nil:
		return verdicts, failures
	case errors.Is(err, ErrPoison) && len(part) > 1:
		half := len(part) / 2
		left, leftErrs := s.write(ctx, part[:half])
		right, rightErrs := s.write(ctx, part[half:])
		return append(left, right...), append(leftErrs, rightErrs...)
	case errors.Is(err, ErrPoison):
		s.opts.Logger.ErrorContext(ctx, "the database refuses an order; it is a dead letter now",
			slog.String("order_id", part[0].ID.String()), slog.Any("error", err))
		return []Verdict{{Status: StatusAccepted}}, []error{s.store.Bury(ctx, part[0], err.Error())}
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

// settle clears the outbox of orders that the database has, and tells
// everybody. What fails here the sweeper repeats, and repeating changes nothing.
func (s *Service) settle(ctx context.Context, settled []settlement) {
	if len(settled) == 0 {
		return
	}
	type place struct {
		sale, item string
		epoch      int64
	}
	ids := make(map[place][]any)
	var news bulletin
	now, _ := s.clock.now()
	for i := range settled {
		r, v := &settled[i].r, settled[i].v
		at := place{r.Sale, r.Item, r.Epoch}
		if !v.Status.Holds() {
			s.takeBack(ctx, r, v)
		} else {
			ids[at] = append(ids[at], r.ID.String())
		}
		if v.Status == StatusConfirmed && !v.Repeated {
			s.opts.Measures.Confirmed(max(0, now.Sub(time.UnixMilli(r.AcceptedMS))))
		}
		news.Orders = append(news.Orders, change{r.ID, v.Status, v.Repeated})
	}
	for at, list := range ids {
		if err := settleScript.Run(ctx, s.rdb, s.itemKeys(at.sale, at.item, at.epoch), list...).Err(); err != nil {
			s.opts.Logger.WarnContext(ctx, "committed orders stay in the outbox until the sweeper comes", slog.String("sale", at.sale), slog.String("item", at.item), slog.Any("error", err))
		}
	}
	s.publish(ctx, news)
}

// takeBack gives back what an order holds in Redis that was rejected, or has
// ended while it was on its way to be readmitted.
func (s *Service) takeBack(ctx context.Context, r *Reservation, v Verdict) {
	units, err := rejectScript.Run(ctx, s.rdb, s.itemKeys(r.Sale, r.Item, r.Epoch), r.ID.String(), r.BuyerHash, r.KeyHash, r.Quantity).Int()
	if err != nil {
		s.opts.Logger.WarnContext(ctx, "a rejected order keeps its units until the sweeper comes",
			slog.String("order_id", r.ID.String()), slog.Any("error", err))
	}
	if units > 0 {
		s.publish(ctx, bulletin{Item: r.ID.item()}) // they are on sale again
	}
	if v.Status != StatusRejected {
		return
	}
	s.opts.Logger.WarnContext(ctx, "an accepted order was rejected", slog.String("order_id", r.ID.String()), slog.String("reason", string(v.Reason)))
}
