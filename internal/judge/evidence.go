package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// Evidence is what the server shows after the drain, and what is known beforehand.
type Evidence struct {
	Orders []Order       // all of the sale; nil = they could not be listed, and invariants that need them are not judged
	Events []Event       // the complete feed of the sale; nil likewise
	Verify *Verification // nil = no response
	Sale   Sale          // read before Orders, and Orders before Events

	Limit  int           // orders of a user that the rules admit within any Window; 0 = not judged
	Window time.Duration // of Limit
	Faults bool          // faults were injected: the server may have lost counters, and units may have taken any time to return
}

// Order is one order in the internal list.
type Order struct {
	OrderID    string        `json:"order_id"`
	Status     orders.Status `json:"status"`
	Item       string        `json:"item"`
	User       string        `json:"user"` // its buyer
	Quantity   int           `json:"quantity"`
	Units      []int         `json:"units"` // numbers, from 1; known from the commit on
	AcceptedAt time.Time     `json:"accepted_at"`
	PayBefore  time.Time     `json:"pay_before,omitzero"` // zero = it has no time to pay
	Reason     orders.Reason `json:"reason,omitempty"`    // why it was rejected
}

// Event is one change of an order, as the feed shows it.
type Event struct {
	Seq       int64         `json:"seq"` // ascends from event to event, with gaps
	OrderID   string        `json:"order_id"`
	Sale      string        `json:"sale"`
	Item      string        `json:"item"`
	User      string        `json:"user"` // its buyer
	Quantity  int           `json:"quantity"`
	Units     []int         `json:"units"`               // numbers, from 1
	Status    orders.Status `json:"status"`              // what the order became, or with a refund stayed
	Action    orders.Action `json:"action,omitempty"`    // of a payment
	Reference string        `json:"reference,omitempty"` // of a payment
}

// Sale is what the judge needs to know of the sale.
type Sale struct {
	Sale     string    `json:"sale"`
	State    string    `json:"state"`
	StartsAt time.Time `json:"starts_at"`
	EndsAt   time.Time `json:"ends_at"`
	Now      time.Time `json:"now"` // the server's clock, when this was read
	Items    []Item    `json:"items"`
	Fresh    bool      `json:"-"` // created by this run, and used by this crowd only
}

// Item is one item of a sale.
type Item struct {
	Item  string `json:"item"`
	Stock int    `json:"stock"`
	Free  int    `json:"free"`
	Quota int    `json:"-"` // units per buyer; 0 = unknown
	Grown int    `json:"-"` // units of Stock that were added during the run
}

// Verification is the server's own verification of a sale, or of a waiting room.
type Verification struct {
	OK     bool           `json:"ok"`
	Checks []orders.Check `json:"checks"`
}

// Statuses of an order.
const (
	accepted  = orders.StatusAccepted
	confirmed = orders.StatusConfirmed
	paid      = orders.StatusPaid
	cancelled = orders.StatusCancelled
	expired   = orders.StatusExpired
	rejected  = orders.StatusRejected
)

// Actions of a capture.
const (
	actionNone   = orders.ActionNone
	actionRefund = orders.ActionRefund
)

// Holds reports whether the order owns units.
func (o *Order) Holds() bool {
	return o.Status == accepted || o.Status == confirmed || o.Status == paid
}

// Of reports whether the order belongs to the crowd with this prefix, or must belong to it because no other client could order.
func (o *Order) Of(prefix string, sale Sale) bool {
	return sale.Fresh || strings.HasPrefix(o.User, prefix)
}

// refunds reports whether the event is a capture to be refunded; such an event changes no status.
func (e *Event) refunds() bool { return e.Action == actionRefund }

// Settled reports whether there is nothing left to wait for.
func (v *Verification) Settled() bool {
	return v.OK && !slices.ContainsFunc(v.Checks, func(c orders.Check) bool { return c.Waiting > 0 })
}

// Balanced reports whether free units and units of orders add up to the stock, according to the list and the sale.
func (e *Evidence) Balanced() bool {
	held := map[string]int{}
	for i := range e.Orders {
		if o := &e.Orders[i]; o.Holds() {
			held[o.Item] += o.Quantity
		}
	}
	return !slices.ContainsFunc(e.Sale.Items, func(it Item) bool { return it.Free+held[it.Item] != it.Stock })
}

// FeedComplete reports whether the feed has caught up with the list, and with the answered payments.
func (e *Evidence) FeedComplete(h *History) bool {
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

// Resold counts how often a returned unit was sold again, according to the feed.
func Resold(events []Event) int { return newFeed(events).resold() }
