package reports

import (
	"context"
	"io"

	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/orders"
)

// Orders is what a report is made of: a shop.Service.
type Orders interface {
	Orders(ctx context.Context, q orders.Query) ([]orders.Order, error)
}

// columns are the fields of an order. Times are RFC 3339, UTC; in CSV units are separated by spaces.
var columns = []string{"order_id", "status", "item", "user", "quantity", "units", "accepted_at", "confirmed_at", "reason"}

// WriteOrders writes all orders of a sale to w, in the order of their ids, until ctx ends. Nothing is written when the first ones cannot be
// read.
func WriteOrders(ctx context.Context, w io.Writer, f export.Format, from Orders, sale string) error {
	return export.Write(ctx, w, f, columns, func(last *orders.Order) ([]orders.Order, error) {
		q := orders.Query{Sale: sale, Viewer: orders.Viewer{All: true}, Limit: export.PageSize}
		if last != nil {
			q.After = last.ID
		}
		return from.Orders(ctx, q)
	}, row)
}

func row(o *orders.Order) []any {
	return []any{o.ID.String(), string(o.Status), o.Item, o.Buyer, o.Quantity, o.Units, o.AcceptedAt, o.ConfirmedAt, string(o.Reason)}
}
