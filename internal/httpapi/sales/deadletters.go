package sales

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/httpapi/jsontime"
	"github.com/tidegate/tidegate/internal/httpapi/paging"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

// DeadLetters are the handlers for dead letters.
type DeadLetters struct{ Orders Replayer }

// A Replayer lists dead letters, and commits their orders again.
type Replayer interface {
	Namer
	DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error)
	Replay(ctx context.Context, id orders.ID) (orders.Order, error)
}

type deadLetterView struct {
	_ struct{} `additionalProperties:"true"`

	OrderID    string    `json:"order_id" format:"uuid"`
	Sale       string    `json:"sale"`
	Item       string    `json:"item"`
	User       string    `json:"user,omitempty"`
	Quantity   int       `json:"quantity"`
	Units      []int     `json:"units" doc:"Kept for the order"`
	AcceptedAt time.Time `json:"accepted_at"`
	RefusedAt  time.Time `json:"refused_at"`
	Reason     string    `json:"reason" doc:"In the database's words"`
}

// List lists them by id, and so by the time of their orders.
func (h *DeadLetters) List(ctx context.Context, in *paging.Paging) (*paging.Output[deadLetterView], error) {
	after, err := afterOrder(ctx, h.Orders, in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := h.Orders.DeadLetters(ctx, after, in.Limit)
	if err != nil {
		return nil, err
	}
	view := func(d *orders.DeadLetter) deadLetterView { return h.view(ctx, d) }
	return paging.Of(list, len(list) == in.Limit, view, func(d *orders.DeadLetter) []byte {
		return cursorAt(ctx, h.Orders, d.Reservation.ID, d.Reservation.Buyer)
	}), nil
}

func (h *DeadLetters) view(ctx context.Context, d *orders.DeadLetter) deadLetterView {
	o := d.Reservation.Accepted()
	view := deadLetterView{
		OrderID: shownTo(ctx, h.Orders, o.ID, o.Buyer), Sale: o.Sale, Item: o.Item, User: o.Buyer, Quantity: o.Quantity, Units: d.Reservation.Units,
		AcceptedAt: jsontime.Instant(o.AcceptedAt), RefusedAt: jsontime.Instant(d.At), Reason: d.Reason,
	}
	if view.Units == nil {
		view.Units = []int{}
	}
	return view
}

type replayInput struct {
	ID string `path:"id" doc:"Id of the order"`
}

func (h *DeadLetters) Replay(ctx context.Context, in *replayInput) (*orderOutput, error) {
	id, err := orderID(ctx, h.Orders, in.ID)
	if err != nil {
		return nil, err
	}
	viewer := request.Of(ctx).Viewer()
	o, err := h.Orders.Replay(context.WithoutCancel(ctx), id)
	record(ctx, h.Orders, &o)
	if err != nil {
		return nil, err
	}
	return &orderOutput{CacheControl: "no-store", Body: viewOrder(ctx, h.Orders, &o, viewer)}, nil
}
