package rehearse

import (
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
)

// payers is the maximum number of concurrent payments, each over one connection to the internal API.
const payers = 32

// reorderPause is how long half of the buyers who cancelled wait before they order again: by then their quota must be free.
const reorderPause = judge.ReturnTravel + 100*time.Millisecond

// carryOut performs the planned operation on an order that is no longer accepted. If the order is neither paid nor cancelled, it
// waits for its end.
func (c *crowd) carryOut(ctx context.Context, p *placed, payBefore time.Time) {
	plan := p.plan
	if p.state != orders.StatusConfirmed {
		return // rejected, or ended before its buyer saw it
	}
	// Orders that expire long after everything else are not waited for.
	ends := !payBefore.IsZero() && time.Until(payBefore) < c.o.DrainTimeout/2
	if plan.moment == atExpiry {
		if ends {
			plan.after += time.Until(payBefore)
		} else {
			plan.after = 0
		}
	}
	switch plan.ending {
	case isPaid:
		if plan.moment != afterAnswer && periodic.Pause(ctx, plan.after) {
			c.pay(ctx, p)
		}
	case isCancelled:
		if periodic.Pause(ctx, plan.after) && c.cancel(ctx, p).Outcome == judge.Admitted && plan.reorder &&
			(plan.together || periodic.Pause(ctx, reorderPause)) {
			c.reorder(ctx, p)
		}
	case isContested:
		if periodic.Pause(ctx, plan.after) {
			var both sync.WaitGroup
			both.Go(func() { c.pay(ctx, p) })
			c.cancel(ctx, p)
			both.Wait()
		}
	case isLeft:
		if ends && periodic.Pause(ctx, time.Until(payBefore)) {
			c.live.Add(1)
			p.while = orders.StatusConfirmed
			c.follow <- p
		}
	}
}

// pay sends the payments of an order.
func (c *crowd) pay(ctx context.Context, p *placed) {
	first, second := "pay-"+p.id+"-1", "pay-"+p.id+"-2"
	rest := func() {
		if p.plan.repeat {
			c.capture(ctx, p, first, 2)
		}
		if p.plan.double {
			c.capture(ctx, p, second, 1)
		}
	}
	var together sync.WaitGroup
	if p.plan.together {
		together.Go(rest)
	}
	c.capture(ctx, p, first, 1)
	if !p.plan.together {
		rest()
	}
	together.Wait()
}

// capture sends a payment until it is answered.
func (c *crowd) capture(ctx context.Context, p *placed, reference string, sent int) {
	a := judge.Operation{Kind: judge.Payment, OrderID: p.id, Reference: reference, Sent: sent}
	c.perform(ctx, a, c.paymentSlots, func(int) (reply, error) { return c.paymentAPI.capture(ctx, p.id, reference) })
}

func (c *crowd) cancel(ctx context.Context, p *placed) judge.Operation {
	a := judge.Operation{Kind: judge.Cancel, OrderID: p.id, Sent: 1}
	return c.perform(ctx, a, c.slots, func(attempt int) (reply, error) {
		return c.apis[(p.buyer+attempt)%len(c.apis)].cancel(ctx, p.user, p.id)
	})
}

// perform retries until there is a definite answer or ctx ends, and records each attempt. Each attempt holds a slot.
func (c *crowd) perform(ctx context.Context, a judge.Operation, slots chan struct{}, try func(attempt int) (reply, error)) judge.Operation {
	a.Outcome = judge.Lost
	retry(ctx, time.Time{}, forever, func() (done bool, pause time.Duration) {
		if !acquire(ctx, slots) {
			return true, 0
		}
		a.Attempt++
		a.Started = time.Since(c.start)
		r, err := try(a.Attempt)
		a.Ended = time.Since(c.start)
		<-slots
		a.Outcome, a.Reason, a.Error = outcomeOf(r, err, false, r.code == http.StatusOK && r.Status != "")
		a.Status, a.State, a.Action = r.code, r.Status, r.Action
		c.rec.record(line{Operation: &a})
		return a.Outcome != judge.Lost, c.backoff(a.Attempt, r.retryAfter)
	})
	return a
}

// reorder orders a cancelled order again, and pays for it.
func (c *crowd) reorder(ctx context.Context, p *placed) {
	c.mu.Lock()
	seq := c.head.Planned + c.unplanned
	c.unplanned++
	c.mu.Unlock()
	k := p.click
	k.at, k.order, k.hangUp, k.plan = time.Since(c.start), k.order+c.o.OrdersPerBuyer, -1, orderPlan{ending: isPaid}
	if acquire(ctx, c.slots) {
		c.settle(ctx, pendingCall{click: k, seq: seq, api: p.api}, math.MaxInt) // it is not retried after the wave
	}
}
