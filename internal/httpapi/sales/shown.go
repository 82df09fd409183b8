package sales

import (
	"context"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/orders"
)

// A Namer names orders to those who may see them and must not act as their buyers, as a shop.Service does.
type Namer interface {
	Shown(id orders.ID, buyer string) orders.ID
	ParseShown(text string) (orders.ID, error)
}

// orderID parses the id of a request's order, on the internal listener also a reference, and records the order for logs. Its buyer is not
// known yet.
func orderID(ctx context.Context, names Namer, text string) (orders.ID, error) {
	r, parse := request.Of(ctx), orders.ParseID
	if r.Guard != nil {
		parse = names.ParseShown
	}
	id, err := parse(text)
	if err == nil {
		r.Order = names.Shown(id, "")
	}
	return id, err
}

// record records an order for logs once its buyer is known.
func record(ctx context.Context, names Namer, o *orders.Order) {
	if o.ID != (orders.ID{}) {
		request.Of(ctx).Order = names.Shown(o.ID, o.Buyer)
	}
}

// shown returns an order's id for the caller, or the reference of an anonymous order if the caller is one who only looks.
func shown(ctx context.Context, names Namer, id orders.ID, buyer string) orders.ID {
	if r := request.Of(ctx); r.Guard == nil || r.Grant.Role.May(auth.ForServices) {
		return id
	}
	return names.Shown(id, buyer)
}

func shownTo(ctx context.Context, names Namer, id orders.ID, buyer string) string {
	return shown(ctx, names, id, buyer).String()
}
