package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/apiclient"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
)

// Evidence is what the server shows after the drain, and what is known beforehand.
type Evidence struct {
	Orders []Order       // all of the sale; nil = they could not be listed, and invariants that need them are not judged
	Events []Event       // the complete feed of the sale; nil likewise
	Verify *Verification // nil = no response
	Sale   Sale          // read before Orders, and Orders before Events

	Limit  int           // as in Options
	Window time.Duration // as in Options
	Faults bool          // as in Options
}

// Event is one change of an order, as the feed shows it.
type Event sales.EventView

// refunds reports whether the event is a capture to be refunded; such an event changes no status.
func (e *Event) refunds() bool { return e.Action == actionRefund }

// Actions of a capture.
const (
	actionNone   = orders.ActionNone
	actionRefund = orders.ActionRefund
)

// Verification is the server's own verification of a sale.
type Verification = sales.Verification

// Check is one line of a Verification.
type Check = orders.Check

// settled reports whether there is nothing left to wait for.
func settled(v *Verification) bool {
	return v.OK && !slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Waiting > 0 })
}

// maxUnbalancedReads is how often the units must not add up before that counts.
const maxUnbalancedReads = 10

// feedLag is how long the feed may lag behind the list: it holds back events that a running transaction may still precede, even
// one in another database, for example while a database is being created on a busy disk.
const feedLag = 30 * time.Second

// between is the pause between two reads of the server.
const between = 250 * time.Millisecond

// collect reads the server until everything has settled or the deadline has passed: every order has ended, or has no time to
// pay, or one beyond the deadline, and the queues are empty. Verify comes first: once its queues are empty, the list is
// complete. The feed comes last, so that it contains at least what the list does. Requests that fail are retried until a little
// after the deadline, so that a single 503 does not end the collection.
func collect(ctx context.Context, api *internal, o Options, h *History, fresh bool, deadline time.Time) (e Evidence, err error) {
	e = Evidence{Limit: o.Limit, Window: o.Window, Faults: o.Faults}
	grace := min(feedLag, o.DrainTimeout)
	var verifyErr, saleErr, listErr error
	for looks := 1; ; {
		e.Verify, verifyErr = api.verify(ctx)
		late := time.Now().After(deadline)
		if !late && !(verifyErr == nil && settled(e.Verify)) && periodic.Pause(ctx, between) {
			continue
		}
		e.Sale, saleErr = api.read(ctx)
		e.Orders, listErr = api.orders(ctx)
		e.Sale.Fresh = fresh
		wait := e.unsettled(h.Prefix, deadline)
		if late {
			wait = 0
		}
		switch {
		case verifyErr != nil || saleErr != nil || listErr != nil:
			if time.Now().Before(deadline.Add(grace)) {
				wait = max(wait, between)
			}
		case wait == 0 && !e.balanced() && looks < maxUnbalancedReads: // units moved between the two reads
			looks++
			wait = between
		}
		if wait == 0 || !periodic.Pause(ctx, wait) {
			break
		}
	}
	var (
		quotas            map[string]int
		quotaErr, feedErr error
	)
	retry(ctx, deadline, grace, func() (done bool, pause time.Duration) {
		quotas, quotaErr = api.quotas(ctx, o.Sale)
		return quotaErr == nil, between
	})
	for i, it := range e.Sale.Items {
		if e.Sale.Items[i].Quota = o.Quota; o.Quota == 0 {
			e.Sale.Items[i].Quota = quotas[it.Item]
		}
	}
	for over := time.Now().Add(grace); ; {
		retry(ctx, deadline, grace, func() (done bool, pause time.Duration) {
			e.Events, feedErr = api.events(ctx, o.Sale, e.Events)
			return feedErr == nil, between
		})
		if e.Events == nil || e.feedComplete(h) || time.Now().After(over) || !periodic.Pause(ctx, between) {
			break
		}
	}
	if listErr == nil && saleErr != nil {
		e.Orders = nil // without the sale the list cannot be judged
	}
	return e, errors.Join(verifyErr, saleErr, listErr, quotaErr, feedErr)
}

// balanced reports whether free units and units of orders add up to the stock, according to the list and the sale.
func (e *Evidence) balanced() bool {
	held := map[string]int{}
	for i := range e.Orders {
		if o := &e.Orders[i]; o.holds() {
			held[o.Item] += o.Quantity
		}
	}
	return !slices.ContainsFunc(e.Sale.Items, func(it Item) bool { return it.Free+held[it.Item] != it.Stock })
}

// feedComplete reports whether the feed has caught up with the list, and with the answered payments.
func (e *Evidence) feedComplete(h *History) bool {
	status, captured := map[string]orders.Status{}, map[string]bool{}
	for i := range e.Events {
		captured[e.Events[i].Reference] = true
		if !e.Events[i].refunds() {
			status[e.Events[i].OrderID] = e.Events[i].Status
		}
	}
	return !slices.ContainsFunc(e.Orders, func(o Order) bool { return o.Status != accepted && !mayBecome(o.Status, status[o.OrderID]) }) &&
		!slices.ContainsFunc(h.Operations, func(a Operation) bool { return a.Kind == Payment && a.Outcome == Admitted && !captured[a.Reference] })
}

// unsettled returns how long to wait before some order of the crowd should have ended; 0 = there is none to wait for.
func (e *Evidence) unsettled(prefix string, deadline time.Time) (wait time.Duration) {
	for i := range e.Orders {
		switch o := &e.Orders[i]; {
		case !o.of(prefix, e.Sale):
		case o.Status == accepted:
			wait = max(wait, between)
		case o.Status == confirmed && !o.payBefore().IsZero() && o.payBefore().Before(deadline):
			wait = max(wait, between, time.Until(o.payBefore()))
		}
	}
	return wait
}

// events reads the feed from the last known event on and keeps the sale's events; nil without an error from a server that has
// no feed.
func (i *internal) events(ctx context.Context, sale string, known []Event) ([]Event, error) {
	if known == nil {
		known = []Event{}
	}
	after := int64(0)
	if len(known) > 0 {
		after = known[len(known)-1].Seq
	}
	for {
		page, err := ask[response.Page[Event]](ctx, i, http.MethodGet, "/v1/order-events?limit=1000&after="+strconv.FormatInt(after, 10), nil)
		if apiclient.HasStatus(err, http.StatusNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if len(page.Items) == 0 {
			return known, nil
		}
		last := page.Items[len(page.Items)-1].Seq
		if last <= after {
			return nil, fmt.Errorf("%w: GET /v1/order-events: after %d comes %d", errAPI, after, last)
		}
		after = last
		known = append(known, slices.DeleteFunc(page.Items, func(e Event) bool { return e.Sale != sale })...)
	}
}
