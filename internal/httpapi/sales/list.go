package sales

import (
	"context"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/orders"
)

type ownOrdersInput struct {
	Sale string `path:"sale" doc:"Name of the sale"`
	response.Paging
}

func (h *Reader) OwnOrders(ctx context.Context, in *ownOrdersInput) (*response.PageOutput[OrderView], error) {
	user := request.Of(ctx).Caller.User
	if user == "" {
		return nil, auth.ErrUnauthenticated // an address has no orders
	}
	return h.list(ctx, orders.Query{Sale: in.Sale, Viewer: orders.Viewer{User: user}}, in.Paging)
}

type allOrdersInput struct {
	Sale string `path:"sale" doc:"Name of the sale"`
	response.Paging
	Status orders.Status `query:"status" enum:"accepted,confirmed,paid,cancelled,expired,rejected"`
	User   string        `query:"user" maxLength:"255"`
}

func (h *Reader) AllOrders(ctx context.Context, in *allOrdersInput) (*response.PageOutput[OrderView], error) {
	return h.list(ctx, orders.Query{Sale: in.Sale, Viewer: orders.Viewer{All: true}, User: in.User, Status: in.Status}, in.Paging)
}

func (h *Reader) list(ctx context.Context, q orders.Query, in response.Paging) (*response.PageOutput[OrderView], error) {
	var err error
	if q.After, err = afterOrder(ctx, h.Orders, in.Cursor); err != nil {
		return nil, err
	}
	q.Limit = in.Limit
	found, err := h.Orders.Orders(ctx, q)
	if err != nil {
		return nil, err
	}
	view := func(o *orders.Order) OrderView { return viewOrder(ctx, h.Orders, o, q.Viewer) }
	return response.PageOf(found, len(found) == in.Limit, view,
		func(o *orders.Order) []byte { return cursorAt(ctx, h.Orders, o.ID, o.Buyer) }), nil
}
