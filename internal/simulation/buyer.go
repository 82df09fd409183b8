package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/orders"
)

// answeredWithin is how long after the last fault every call has to have an answer.
const answeredWithin = time.Minute

// buyer wants an order, and does something with it.
type buyer struct {
	w    *World
	n    int
	name string
	req  orders.Request

	has       bool          // an order
	refused   orders.Reason // of the latest request, and when
	refusedAt time.Time
}

func (w *World) buy(n int) {
	name := fmt.Sprintf("buyer-%d", n)
	b := &buyer{w: w, n: n, name: name, req: orders.Request{
		Sale: sale, Item: itemName(w.chance.between(0, w.shape.Items-1)), User: name, Key: name + "-key",
		Quantity: w.chance.between(1, w.shape.Quota),
	}}
	time.Sleep(w.chance.upTo(w.shape.Sells))
	o, ok := b.order()
	if !ok {
		return
	}
	time.Sleep(w.chance.upTo(w.shape.Sells / 3))
	switch w.chance.between(1, 8) {
	case 1:
		b.pay(o.ID, 1)
	case 2:
		b.pay(o.ID, 1)
		b.pay(o.ID, 2)
	case 3:
		b.cancel(o.ID)
	case 4:
		w.buyers.Go(func() { b.pay(o.ID, 1) })
		b.cancel(o.ID)
	case 5:
		b.order() // once more, with the same key
	case 6:
		b.orderAnother()
	case 7:
		b.cancel(o.ID)
		b.orderAnother()
	}
	b.look(o.ID)
}

// orderAnother orders once more, with another key. It may be more than the quota allows.
func (b *buyer) orderAnother() {
	another := &buyer{w: b.w, n: b.n + 100, name: b.name, req: b.req, has: true} // its calls are not among the planned ones
	another.req.Key += "-another"
	another.order()
}

// order repeats the request until it is decided. Some who were refused try again, and some hang up and never come back.
func (b *buyer) order() (orders.Order, bool) {
	since := b.w.now()
	b.refused = ""
	for {
		if b.has {
			b.w.mayRepeat()
		}
		hangsUp := b.w.chance.oneIn(10)
		timeout := time.Second
		if hangsUp {
			timeout = b.w.chance.upTo(20 * time.Millisecond)
		}
		i, p := b.w.api()
		call := judge.Call{
			Seq: b.n, Attempt: b.w.attempt(b.n), Buyer: b.name, Item: b.req.Item, Quantity: b.req.Quantity, Key: b.req.Key,
			API: i, HungUp: hangsUp, Started: b.w.now(),
		}
		ctx, cancel := context.WithTimeout(b.w.ctx, timeout)
		out, err := p.service.Place(ctx, b.req)
		cancel()
		call.Ended = b.w.now()
		if hangsUp || p.dead.Load() {
			call.Outcome, call.Reason = judge.Lost, "hung_up" // whatever the answer was, it does not arrive
		} else if err := answer(&call, out, err); err != nil {
			b.w.breach("answer", "%s ordered: %v", b.name, err)
			return orders.Order{}, false
		}
		if call.Outcome == judge.Refused {
			b.refused, b.refusedAt = out.Reason, time.Now()
		}
		b.w.record(func(h *judge.History) { h.Calls = append(h.Calls, call) })
		b.w.trace("%s orders from %s: %s %s%s%s", b.name, p.name, call.Outcome, call.OrderID, call.Reason, call.Error)
		switch {
		case call.Outcome == judge.Admitted:
			b.has = true
			return out.Order, true
		case hangsUp && b.w.chance.oneIn(2), call.Outcome == judge.Refused && (b.w.quiet() || !b.w.chance.oneIn(3)):
			return orders.Order{}, false
		}
		if !b.again(since, "order") {
			return orders.Order{}, false
		}
	}
}

// answer notes the answer of a service as the HTTP API gives it. It returns an error that a buyer must not get.
func answer(call *judge.Call, out orders.Outcome, err error) error {
	switch {
	case errors.Is(err, orders.ErrUnavailable), errors.Is(err, orders.ErrRecovering):
		call.Outcome, call.Status, call.Error = judge.Lost, 503, err.Error()
	case err != nil:
		return err
	case out.Admitted():
		call.Outcome, call.Status, call.OrderID, call.State = judge.Admitted, 202, out.Order.ID.String(), out.Order.Status
	case out.Reason == orders.ReasonAtCapacity:
		call.Outcome, call.Status, call.Reason = judge.Lost, 503, string(out.Reason)
	default:
		call.Outcome, call.Status, call.Reason = judge.Refused, 409, string(out.Reason)
	}
	return nil
}

// again waits before a call is repeated, and reports whether it may be.
func (b *buyer) again(since time.Duration, what string) bool {
	if b.w.quiet() && b.w.now()-since > b.w.shape.Sells+answeredWithin {
		b.w.breach("answer", "%s to %s was not answered in %v", b.name, what, b.w.now()-since)
		return false
	}
	time.Sleep(100*time.Millisecond + b.w.chance.upTo(900*time.Millisecond))
	return true
}

func (b *buyer) pay(id orders.ID, number int) {
	b.operate(judge.Operation{Kind: judge.Payment, OrderID: id.String(), Reference: fmt.Sprintf("pay-%s-%d", id, number), Sent: 1},
		func(ctx context.Context, p *process, a *judge.Operation) error {
			payment, err := p.service.Pay(ctx, id, a.Reference)
			a.State, a.Action = payment.Status, payment.Action
			return err
		})
}

func (b *buyer) cancel(id orders.ID) {
	cancellation := judge.Operation{Kind: judge.Cancel, OrderID: id.String(), Sent: 1}
	b.operate(cancellation, func(ctx context.Context, p *process, a *judge.Operation) error {
		o, err := p.service.Cancel(ctx, id, orders.Viewer{User: b.name})
		a.State = o.Status
		return err
	})
}

// operate pays or cancels until that is done or refused.
func (b *buyer) operate(a judge.Operation, call func(context.Context, *process, *judge.Operation) error) {
	since := b.w.now()
	for a.Attempt = 1; ; a.Attempt++ {
		_, p := b.w.api()
		a.Started = b.w.now()
		ctx, cancel := context.WithTimeout(b.w.ctx, 2*time.Second)
		err := call(ctx, p, &a)
		cancel()
		a.Ended = b.w.now()
		switch {
		case p.dead.Load():
			a.Outcome, a.Status, a.State, a.Action = judge.Lost, 0, "", ""
		case err == nil:
			a.Outcome, a.Status = judge.Admitted, 200
		case errors.Is(err, orders.ErrOrderFinal):
			a.Outcome, a.Status, a.Reason = judge.Refused, 409, "order_final"
		case errors.Is(err, orders.ErrUnavailable), errors.Is(err, orders.ErrRecovering):
			a.Outcome, a.Status, a.State, a.Action = judge.Lost, 503, "", ""
		default:
			b.w.breach("answer", "%s of %s: %v", a.Kind, a.OrderID, err)
			return
		}
		done := a
		b.w.record(func(h *judge.History) { h.Operations = append(h.Operations, done) })
		b.w.trace("%s: %s of %s: %s %s %v", b.name, a.Kind, a.OrderID, a.Outcome, a.State, err)
		if a.Outcome != judge.Lost || !b.again(since, string(a.Kind)) {
			return
		}
	}
}

// look reads the order.
func (b *buyer) look(id orders.ID) {
	first := b.w.now()
	for range b.w.chance.between(0, 3) {
		_, p := b.w.api()
		read := judge.StatusRead{OrderID: id.String(), Since: first, Started: b.w.now()}
		ctx, cancel := context.WithTimeout(b.w.ctx, 2*time.Second)
		o, err := p.service.Order(ctx, id, orders.Viewer{User: b.name})
		cancel()
		read.State, read.Ended = o.Status, b.w.now()
		switch {
		case p.dead.Load():
		case err == nil:
			b.w.record(func(h *judge.History) { h.StatusReads = append(h.StatusReads, read) })
		case !errors.Is(err, orders.ErrUnavailable) && !errors.Is(err, orders.ErrRecovering):
			b.w.breach("answer", "%s reads %s: %v", b.name, id, err)
		}
		time.Sleep(b.w.chance.upTo(time.Second))
	}
}

// now is the time of the history.
func (w *World) now() time.Duration { return time.Since(w.history.StartedAt) }

func (w *World) record(add func(*judge.History)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add(&w.history)
}

// attempt returns the number of the next attempt of a planned call.
func (w *World) attempt(seq int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 1
	for i := range w.history.Calls {
		if w.history.Calls[i].Seq == seq {
			n++
		}
	}
	return n
}

// quiet reports whether all faults are over.
func (w *World) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settled
}
