package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/orders"
)

// wholeWithin is how long after the last fault everything has to be open, drained and whole.
const wholeWithin = 3 * time.Minute

// judges look at a world after the last fault, in this order. A new one needs an entry here only. An error is a breach, and ends judging.
var judges = []struct {
	name  string
	judge func(*World, context.Context) error
}{
	{"open", (*World).orderAtEachAPI},
	{"whole", (*World).awaitWhole},
	{"room", (*World).awaitWholeRoom},
	{"calls", (*World).callEachAPI},
	{"permits", (*World).boundCallers},
	{"login", (*World).judgeLogins},
	{"history", (*World).compareHistory},
}

func (w *World) judge() {
	ctx, cancel := context.WithTimeout(w.ctx, wholeWithin)
	defer cancel()
	for _, j := range judges {
		if err := j.judge(w, ctx); err != nil {
			w.breach(j.name, "%v", err)
			return
		}
	}
}

// until calls try until it succeeds. When ctx ends, it returns the latest error.
func until(ctx context.Context, every time.Duration, try func() error) error {
	for began := time.Now(); ; {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return fmt.Errorf("%w, for %v", err, time.Since(began))
		}
	}
}

// orderAtEachAPI orders from every API until it accepts an order, or is sold out.
func (w *World) orderAtEachAPI(ctx context.Context) error {
	for i, p := range w.apis {
		call := judge.Call{Seq: w.shape.Buyers + i, Buyer: fmt.Sprintf("buyer-last-%d", i), Item: itemName(0), Quantity: 1, Key: "last", API: i}
		if err := until(ctx, time.Second, func() error {
			if w.takesOrder(ctx, p, &call) {
				return nil
			}
			return fmt.Errorf("%s takes no orders: %s%s", p.name, call.Reason, call.Error)
		}); err != nil {
			return err
		}
	}
	return nil
}

// takesOrder orders from an API, and reports whether it is open: it accepts the order, or is sold out and no worker sees free units.
func (w *World) takesOrder(ctx context.Context, p *process, call *judge.Call) bool {
	call.Attempt, call.Started, call.Reason, call.Error = call.Attempt+1, w.now(), "", ""
	out, err := p.service.Place(ctx, orders.Request{Sale: sale, Item: call.Item, User: call.Buyer, Key: call.Key, Quantity: 1})
	call.Ended = w.now()
	if err := answer(call, out, err); err != nil {
		call.Outcome, call.Error = judge.Lost, err.Error()
	}
	done := *call
	w.record(func(h *judge.History) { h.Calls = append(h.Calls, done) })
	return err == nil && (out.Admitted() || out.Reason == orders.ReasonSoldOut && !w.free(ctx, call.Item))
}

// free reports whether a worker sees free units.
func (w *World) free(ctx context.Context, item string) bool {
	if len(w.workers) == 0 {
		return false
	}
	status, err := w.workers[0].service.Sale(ctx, sale)
	return err == nil && status.Free[item] > 0
}

// awaitWhole waits until the server's own verification finds everything whole, and nothing under way.
func (w *World) awaitWhole(ctx context.Context) error {
	var open []string // of the latest verification that came to its end
	return until(ctx, time.Second, func() error {
		_, p := w.api()
		checks, err := p.service.Verify(ctx, sale)
		if err == nil {
			open = unsettled(checks)
		}
		if v := verification(checks); err == nil && v.Settled() {
			return nil
		}
		return errors.Join(errors.New(strings.Join(open, "; ")), err)
	})
}

// unsettled describes the checks that fail, or have something under way.
func unsettled(checks []orders.Check) (open []string) {
	for _, c := range checks {
		if !c.OK || c.Waiting > 0 {
			open = append(open, c.Invariant+" "+c.Detail)
		}
	}
	return open
}

func verification(checks []orders.Check) judge.Verification {
	v := judge.Verification{OK: true, Checks: checks}
	for _, c := range checks {
		v.OK = v.OK && c.OK
	}
	return v
}

// compareHistory compares what buyers saw with what is stored, as rehearsals and chaos rounds do.
func (w *World) compareHistory(ctx context.Context) error {
	e, err := w.evidence(ctx)
	for range 10 {
		if err == nil && e.Balanced() {
			break
		}
		time.Sleep(500 * time.Millisecond) // an order has expired between two of the reads, for example
		e, err = w.evidence(ctx)
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	h := w.history
	w.mu.Unlock()
	findings := judge.Findings(&h, e)
	for _, f := range findings {
		if f.Verdict == judge.Breach {
			w.breach(f.Invariant, "%s: %s", f.Title, strings.Join(f.Examples, "; "))
		}
	}
	if len(w.breaches) == 0 && !judge.Held(findings, "I1", "I6") {
		return errors.New("nothing was judged")
	}
	w.compareRejected(e)
	w.trace("%d calls, %d orders", len(h.Calls), len(e.Orders))
	return nil
}

// compareRejected looks for orders that buyers were given, and that were rejected later, although each had a copy all the time. What Redis had
// at an earlier time may have been sold to others before that was noticed.
func (w *World) compareRejected(e judge.Evidence) {
	if w.repeatFrom.Load() > 0 {
		return
	}
	w.mu.Lock()
	given := w.promised()
	w.mu.Unlock()
	for _, o := range e.Orders {
		if id, err := orders.ParseID(o.OrderID); err == nil && o.Status == orders.StatusRejected && slices.Contains(given, id) {
			w.breach("rejected", "order %s of %s was accepted, and then rejected: %s", o.OrderID, o.User, o.Reason)
		}
	}
}

// evidence reads everything that is stored.
func (w *World) evidence(ctx context.Context) (e judge.Evidence, err error) {
	_, p := w.api()
	checks, err := p.service.Verify(ctx, sale)
	if err != nil {
		return e, err
	}
	v := verification(checks)
	status, err := p.service.Sale(ctx, sale)
	if err != nil {
		return e, err
	}
	e = judge.Evidence{
		Verify: &v, Faults: !w.shape.faultless(), Orders: []judge.Order{}, Events: []judge.Event{},
		Sale: judge.Sale{Sale: sale, State: string(status.State), StartsAt: status.StartsAt, EndsAt: status.EndsAt, Now: status.Now, Fresh: true},
	}
	for _, it := range status.Items {
		e.Sale.Items = append(e.Sale.Items, judge.Item{
			Item: it.ID, Stock: it.Stock, Free: status.Free[it.ID], Quota: it.QuotaPerBuyer, Grown: it.Stock - w.shape.Stock,
		})
	}
	q := orders.Query{Sale: sale, Viewer: orders.Viewer{All: true}, Limit: 1000}
	for {
		page, err := p.service.Orders(ctx, q)
		if err != nil {
			return e, err
		}
		if len(page) == 0 {
			break
		}
		for _, o := range page {
			e.Orders = append(e.Orders, judge.Order{
				OrderID: o.ID.String(), Status: o.Status, Item: o.Item, User: o.Buyer, Quantity: o.Quantity, Units: o.Units, AcceptedAt: o.AcceptedAt,
				PayBefore: o.PayBefore, Reason: o.Reason,
			})
			q.After = o.ID
		}
	}
	events, err := p.service.Events(ctx, 0, 1000, 0)
	for _, ev := range events {
		e.Events = append(e.Events, judge.Event{
			Seq: ev.Seq, OrderID: ev.OrderID.String(), Sale: ev.Sale, Item: ev.Item, User: ev.Buyer, Quantity: ev.Quantity,
			Units: ev.Units, Status: ev.Status,
			Action: ev.Action, Reference: ev.Reference,
		})
	}
	return e, err
}
