package sales

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/orders"
)

// Export is the handler for all orders of a sale in one file.
type Export struct {
	Orders Lister
	Log    *slog.Logger
	Limit  echo.MiddlewareFunc // on files at once; nil: there is no such route
}

// Routes is the route of the file. It needs a limit.
func (h *Export) Routes() []route.Route {
	if h.Limit == nil {
		return nil
	}
	return []route.Route{route.Plain(route.Route{
		Operation: huma.Operation{
			OperationID: "orders-csv", Method: http.MethodGet, Path: SalePath + "/orders.csv", Summary: "All orders of a sale as CSV or NDJSON",
			Description: response.LimitedFileText, Tags: route.TagOperating,
			Parameters: []*huma.Param{route.PathParameter("sale", "Name of the sale")},
			Responses:  route.Responses(route.Content(response.FileTypes...), 401, 403, 404, 503),
		},
		Roles: auth.ForServices, Lasting: true, Steps: []echo.MiddlewareFunc{h.Limit},
	}, h.Send)}
}

// A Lister lists orders page by page.
type Lister interface {
	Orders(ctx context.Context, q orders.Query) ([]orders.Order, error)
}

// Send streams page by page, until the client disconnects or the permit is lost.
func (h *Export) Send(c echo.Context) error {
	ctx, sale := c.Request().Context(), c.Param("sale")
	return response.SendFile(c, h.Log, "orders-"+sale, func(w io.Writer, f export.Format) error {
		return reports.WriteOrders(ctx, w, f, h.Orders, sale)
	})
}
