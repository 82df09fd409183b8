package rehearse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Evidence is what the server shows after the drain, and what is known of it beforehand.
type Evidence struct {
	Orders []Order       // all of the sale; nil = they could not be listed, and what needs them is not judged
	Events []Event       // the feed of the sale, whole; nil likewise
	Verify *Verification // nil = the server did not say
	Sale   Sale          // read before Orders, and Orders before Events

	Limit  int           // as in Options
	Window time.Duration // as in Options
	Faults bool          // as in Options
}

// Event is one change of an order, as the feed shows it.
type Event struct {
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at"`
	OrderID   string    `json:"order_id"`
	Sale      string    `json:"sale"`
	Item      string    `json:"item"`
	Buyer     string    `json:"user"`
	Quantity  int       `json:"quantity"`
	Units     []int     `json:"units"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason"`
	Action    string    `json:"action"`    // refund: a capture that found nothing to pay; Status is what it was before
	Reference string    `json:"reference"` // of a capture
}

// refunds tells whether the event is a capture to be refunded; such an event changes no status.
func (e *Event) refunds() bool { return e.Action == actionRefund }

// Actions of a capture.
const (
	actionNone   = "none"
	actionRefund = "refund"
)

// Verification is what the server says of itself.
type Verification struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Check is one line of a Verification.
type Check struct {
	Invariant string `json:"invariant"`
	OK        bool   `json:"ok"`
	Detail    string `json:"detail"`
	Waiting   int    `json:"waiting"` // orders and tasks still under way: no breach, until the drain is over
}

// settled tells whether there is nothing left to wait for.
func (v *Verification) settled() bool {
	return v.OK && !slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Waiting > 0 })
}

// looksAtUnits is how often units may not add up before it is believed.
const looksAtUnits = 10

// feedLag is how long the feed may be behind the list: it holds back what a transaction that still runs might come before, also one of
// another database, as while that is created on a busy disk.
const feedLag = 30 * time.Second

// between is how long to wait before the server is asked again.
const between = 250 * time.Millisecond

// collect asks the server until everything has settled or the deadline has passed: every order is at its end, or has nothing to pay in
// time, or longer to pay than anybody waits here, and the queues are empty. Verify comes first: once its queues are empty, the list is
// complete. The feed comes last, so that it knows at least what the list knows. What the server does not answer is asked again, a
// little past the deadline, too: one 503 is not the end of the evidence.
func collect(ctx context.Context, api *internal, o Options, h *History, fresh bool, deadline time.Time) (e Evidence, err error) {
	e = Evidence{Limit: o.Limit, Window: o.Window, Faults: o.Faults}
	grace := min(feedLag, o.DrainTimeout)
	var verifyErr, saleErr, listErr error
	for looks := 1; ; {
		e.Verify, verifyErr = api.verify(ctx)
		late := time.Now().After(deadline)
		if !late && !(verifyErr == nil && e.Verify.settled()) && pause(ctx, between) {
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
		case wait == 0 && !e.balanced() && looks < looksAtUnits: // something moved between the sale and the list
			looks++
			wait = between
		}
		if wait == 0 || !pause(ctx, wait) {
			break
		}
	}
	var quotas map[string]int
	quotaErr := insist(ctx, deadline, grace, func() (err error) {
		quotas, err = api.quotas(ctx, o.Sale)
		return err
	})
	for i, it := range e.Sale.Items {
		if e.Sale.Items[i].Quota = o.Quota; o.Quota == 0 {
			e.Sale.Items[i].Quota = quotas[it.Item]
		}
	}
	var feedErr error
	for over := time.Now().Add(grace); ; {
		feedErr = insist(ctx, deadline, grace, func() (err error) {
			e.Events, err = api.events(ctx, o.Sale, e.Events)
			return err
		})
		if e.Events == nil || e.toldAll(h) || time.Now().After(over) || !pause(ctx, between) {
			break
		}
	}
	if listErr == nil && saleErr != nil {
		e.Orders = nil // without the sale nothing of the list can be judged
	}
	return e, errors.Join(verifyErr, saleErr, listErr, quotaErr, feedErr)
}

// insist asks until there is an answer, or the deadline has passed: for the length of grace at least, though that is later.
func insist(ctx context.Context, deadline time.Time, grace time.Duration, ask func() error) error {
	until := time.Now().Add(max(time.Until(deadline), 0) + grace)
	for {
		if err := ask(); err == nil || time.Now().After(until) || !pause(ctx, between) {
			return err
		}
	}
}

// balanced tells whether what is free and what orders hold is the stock, as far as the list and the sale say.
func (e *Evidence) balanced() bool {
	held := map[string]int{}
	for i := range e.Orders {
		if o := &e.Orders[i]; o.holds() {
			held[o.Item] += o.Quantity
		}
	}
	return !slices.ContainsFunc(e.Sale.Items, func(it Item) bool { return it.Free+held[it.Item] != it.Stock })
}

// toldAll tells whether the feed has caught up with the list, and with what payers were answered.
func (e *Evidence) toldAll(h *History) bool {
	status, captured := map[string]string{}, map[string]bool{}
	for i := range e.Events {
		captured[e.Events[i].Reference] = true
		if !e.Events[i].refunds() {
			status[e.Events[i].OrderID] = e.Events[i].Status
		}
	}
	return !slices.ContainsFunc(e.Orders, func(o Order) bool { return o.Status != accepted && !mayBecome(o.Status, status[o.OrderID]) }) &&
		!slices.ContainsFunc(h.Acts, func(a Act) bool { return a.Deed == Payment && a.Outcome == Admitted && !captured[a.Reference] })
}

// unsettled is how long to wait before some order of the crowd should have reached its end; 0 = there is none to wait for.
func (e *Evidence) unsettled(prefix string, deadline time.Time) (wait time.Duration) {
	for i := range e.Orders {
		switch o := &e.Orders[i]; {
		case !o.of(prefix, e.Sale):
		case o.Status == accepted:
			wait = max(wait, between)
		case o.Status == confirmed && !o.PayBefore.IsZero() && o.PayBefore.Before(deadline):
			wait = max(wait, between, time.Until(o.PayBefore))
		}
	}
	return wait
}

// events reads the feed on from what is known of it and keeps what is of the sale; nil without an error from a server that has none.
func (i *internal) events(ctx context.Context, sale string, known []Event) ([]Event, error) {
	if known == nil {
		known = []Event{}
	}
	after := int64(0)
	if len(known) > 0 {
		after = known[len(known)-1].Seq
	}
	for {
		var page struct {
			Items []Event `json:"items"`
		}
		code, err := i.do(ctx, http.MethodGet, "/v1/order-events?limit=1000&after="+strconv.FormatInt(after, 10), nil, &page)
		if code == http.StatusNotFound {
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
			return nil, fmt.Errorf("%w: GET /v1/order-events: after %d comes %d", ErrAPI, after, last)
		}
		after = last
		known = append(known, slices.DeleteFunc(page.Items, func(e Event) bool { return e.Sale != sale })...)
	}
}
