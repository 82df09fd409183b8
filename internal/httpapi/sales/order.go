package sales

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/orders"
)

// OrderRequest is what a buyer asks for.
type OrderRequest struct {
	Item     string `json:"item" doc:"Name of the item"`
	Quantity int    `json:"quantity,omitempty" minimum:"1" maximum:"1000" default:"1"`
}

func (r *OrderRequest) of(sale, user, key string) orders.Request {
	return orders.Request{Sale: sale, Item: r.Item, Quantity: r.Quantity, User: user, Key: key}
}

type orderInput struct {
	ID     string        `path:"id" doc:"Id of the order"`
	WaitMS int64         `query:"wait_ms" minimum:"0" maximum:"30000" doc:"How long to wait for the status to differ from while"`
	While  orders.Status `query:"while" enum:"accepted,confirmed,paid,cancelled,expired,rejected" default:"accepted"`
}

type orderOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         OrderView
}

// OrderView is an order in responses.
type OrderView struct {
	_ struct{} `additionalProperties:"true"`

	OrderID     string        `json:"order_id" format:"uuid" doc:"For viewers, a reference of an order without a user: the internal listener takes it for the id"`
	Status      orders.Status `json:"status" enum:"accepted,confirmed,paid,cancelled,expired,rejected"`
	Sale        string        `json:"sale"`
	Item        string        `json:"item"`
	User        string        `json:"user,omitempty" doc:"The buyer; for services and operators"`
	Quantity    int           `json:"quantity"`
	Units       []int         `json:"units" doc:"Numbers of the units; known from the commit on"`
	AcceptedAt  time.Time     `json:"accepted_at"`
	ConfirmedAt *time.Time    `json:"confirmed_at"`
	PayBefore   *time.Time    `json:"pay_before" doc:"null: there is nothing to pay in time"`
	Reason      orders.Reason `json:"reason,omitempty" doc:"Why it was rejected"`
	PollAfterMS int64         `json:"poll_after_ms" doc:"When to ask again; 0: it will not change any more"`
}

func (h *Reader) Order(ctx context.Context, in *orderInput) (*orderOutput, error) {
	id, err := orderID(ctx, h.Orders, in.ID)
	if err != nil {
		return nil, err
	}
	r := request.Of(ctx)
	viewer := r.Viewer()
	r.Slot.Leave()
	o, err := h.order(ctx, id, viewer, in)
	record(ctx, h.Orders, &o)
	if err != nil {
		return nil, err
	}
	return &orderOutput{CacheControl: "no-store", Body: viewOrder(ctx, h.Orders, &o, viewer)}, nil
}

// order waits for a change if it is asked to and may.
func (h *Reader) order(ctx context.Context, id orders.ID, viewer orders.Viewer, in *orderInput) (orders.Order, error) {
	if wait := time.Duration(in.WaitMS) * time.Millisecond; wait > 0 {
		if waiting, end, ok := h.MayWait(ctx); ok {
			defer end()
			o, err := h.Orders.Wait(waiting, id, viewer, in.While, wait)
			return o, cmp.Or(request.Of(ctx).StillAllowed(), err)
		}
	}
	return h.Orders.Order(ctx, id, viewer)
}

func viewOrder(ctx context.Context, names Namer, o *orders.Order, by orders.Viewer) OrderView {
	v := OrderView{
		OrderID: shownTo(ctx, names, o.ID, o.Buyer), Status: o.Status, Sale: o.Sale, Item: o.Item, Quantity: o.Quantity, Units: o.Units,
		AcceptedAt: response.Instant(o.AcceptedAt), ConfirmedAt: response.InstantOrNull(o.ConfirmedAt),
		PayBefore: response.InstantOrNull(o.PayBefore),
		Reason:    o.Reason, PollAfterMS: pollAfter(o),
	}
	if v.Units == nil {
		v.Units = []int{}
	}
	if by.All {
		v.User = o.Buyer
	}
	return v
}

// pollAfter spreads the polling of clients that were admitted at the same moment.
func pollAfter(o *orders.Order) int64 {
	switch {
	case o.Status == orders.StatusAccepted:
		return 150 + rand.Int64N(101)
	case o.Status == orders.StatusConfirmed && !o.PayBefore.IsZero():
		return 1500 + rand.Int64N(1001)
	}
	return 0
}

// afterOrder returns the order that a cursor of this caller stands for.
func afterOrder(ctx context.Context, names Namer, s string) (id orders.ID, err error) {
	if s == "" {
		return id, nil
	}
	after, err := response.ParseCursor(s)
	if err != nil || len(after) != len(id) {
		return id, response.InvalidCursor()
	}
	if id = orders.ID(after); request.Of(ctx).Guard != nil {
		if id, err = names.ParseShown(id.String()); err != nil {
			return id, response.InvalidCursor()
		}
	}
	return id, nil
}

// cursorAt returns the cursor after an order for this caller.
func cursorAt(ctx context.Context, names Namer, id orders.ID, buyer string) []byte {
	id = shown(ctx, names, id, buyer)
	return id[:]
}
