package sales

import (
	"context"
	"io"
	"log/slog"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/internal/httpapi/attachment"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/orders"
)

// Export is the handler for all orders of a sale in one file.
type Export struct {
	Orders Lister
	Log    *slog.Logger
}

// A Lister lists orders page by page.
type Lister interface {
	Orders(ctx context.Context, q orders.Query) ([]orders.Order, error)
}

// Send streams page by page, until the client disconnects or the permit is lost.
func (h *Export) Send(c echo.Context) error {
	ctx, sale := c.Request().Context(), c.Param("sale")
	return attachment.Send(c, h.Log, "orders-"+sale, func(w io.Writer, f export.Format) error {
		return reports.WriteOrders(ctx, w, f, h.Orders, sale)
	})
}
