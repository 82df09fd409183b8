package sales

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
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

// Routes are the routes of dead letters.
func (h *DeadLetters) Routes() []route.Route {
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "list-dead-letters", Method: http.MethodGet, Path: "/v1/orders/dead",
				Summary: "Accepted orders that the database refuses to hold", Tags: route.TagOperating, Errors: []int{401, 403, 422, 503},
			},
			Roles: auth.ForViewers,
		}, h.List),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "replay-dead-letter", Method: http.MethodPost, Path: "/v1/orders/dead/{id}/replay",
				Summary: "Commit a dead letter after what made the database refuse it is gone; 409: it still refuses", Tags: route.TagOperating,
				Errors: []int{401, 403, 404, 409, 503},
			},
			Roles: auth.ForOperators,
		}, h.Replay),
	}
}

// DeadLetterView is a dead letter in responses.
type DeadLetterView struct {
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
func (h *DeadLetters) List(ctx context.Context, in *response.Paging) (*response.PageOutput[DeadLetterView], error) {
	after, err := afterOrder(ctx, h.Orders, in.Cursor)
	if err != nil {
		return nil, err
	}
	list, err := h.Orders.DeadLetters(ctx, after, in.Limit)
	if err != nil {
		return nil, err
	}
	view := func(d *orders.DeadLetter) DeadLetterView { return h.view(ctx, d) }
	return response.PageOf(list, len(list) == in.Limit, view, func(d *orders.DeadLetter) []byte {
		return cursorAt(ctx, h.Orders, d.Reservation.ID, d.Reservation.Buyer)
	}), nil
}

func (h *DeadLetters) view(ctx context.Context, d *orders.DeadLetter) DeadLetterView {
	o := d.Reservation.Accepted()
	view := DeadLetterView{
		OrderID: shownTo(ctx, h.Orders, o.ID, o.Buyer), Sale: o.Sale, Item: o.Item, User: o.Buyer, Quantity: o.Quantity,
		Units:      d.Reservation.Units,
		AcceptedAt: response.Instant(o.AcceptedAt), RefusedAt: response.Instant(d.At), Reason: d.Reason,
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
