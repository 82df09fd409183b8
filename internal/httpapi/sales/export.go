package sales

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/orders"
)

// reportPage is how long reading and sending a page may take: a client that takes longer is considered gone.
const reportPage = 30 * time.Second

// Export is the handler for all orders of a sale in one file.
type Export struct {
	Orders interface {
		Orders(ctx context.Context, q orders.Query) ([]orders.Order, error)
	}
	Log *slog.Logger
}

// CSV streams page by page, until the client disconnects or the permit is lost.
func (h *Export) CSV(c echo.Context) error {
	ctx, sale := c.Request().Context(), c.Param("sale")
	err := reports.WriteOrders(ctx, &attachment{c: c, name: "orders-" + sale + ".csv"}, h.Orders, sale)
	if err == nil || !c.Response().Committed {
		return err
	}
	if !errors.Is(err, context.Canceled) {
		h.Log.WarnContext(ctx, "report cut off", "sale", sale, "error", err)
	}
	panic(http.ErrAbortHandler) // a partial response must not look complete
}

// An attachment is a response that is a file. The header is sent with the first part, so before that the response may still
// become a problem.
type attachment struct {
	c     echo.Context
	name  string
	begun bool
}

func (f *attachment) Write(part []byte) (int, error) {
	w := f.c.Response()
	if !f.begun {
		f.begun = true
		h := w.Header()
		h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
		h.Set("Content-Disposition", `attachment; filename="`+f.name+`"`)
		h.Set("X-Content-Type-Options", "nosniff")
		h["Cache-Control"] = request.NoStore
		w.WriteHeader(http.StatusOK)
	}
	// The server's own deadline is meant for responses in one piece.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(reportPage)) // a test's recorder has none
	return w.Write(part)
}
