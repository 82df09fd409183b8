package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/reports"
	"github.com/tidegate/tidegate/internal/semdefs"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreecho"
)

const (
	reportWait = 10 * time.Second // for a permit
	reportPage = 30 * time.Second // for reading and sending a page: a client that takes longer is considered gone
)

// reports registers routes that stream, without Huma, which would buffer the whole response.
func (a *API) reports(described *huma.OpenAPI) {
	a.internal.GET("/v1/sales/:sale/orders.csv", a.ordersCSV, needs(auth.ForServices), a.capped(reports.Semaphore, reportWait))
	described.AddOperation(&huma.Operation{
		OperationID: "orders-csv", Method: http.MethodGet, Path: "/v1/sales/{sale}/orders.csv", Summary: "All orders of a sale as CSV",
		Description: "Takes a permit of the semaphore `report`, and waits up to 10 s for one. An answer that is cut off is not whole.", Tags: operating,
		Parameters: []*huma.Param{{Name: "sale", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: "Name of the sale"}},
		Responses:  refusals(&huma.Response{Description: "OK", Content: map[string]*huma.MediaType{"text/csv": {}}}, 401, 403, 404, 503),
	})
}

// capped is the middleware of routes that need a permit of a semaphore. It refuses with a problem, as all other routes.
func (a *API) capped(name string, wait time.Duration) echo.MiddlewareFunc {
	var missing atomic.Bool // and logged; Echo calls the inner function for each request
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		sem, err := a.semaphores.Semaphore(name)
		if err != nil {
			return func(echo.Context) error { return err }
		}
		limited := semaphoreecho.LimitWith(sem, semaphoreecho.Config{
			Wait: wait,
			Request: func(c echo.Context) (semaphore.Request, error) {
				return semaphore.Request{Holder: holderOf(request.Of(c.Request().Context()))}, nil
			},
			Refuse: func(_ echo.Context, full *semaphore.CapacityError) error { return full },
		})(next)
		return func(c echo.Context) error {
			err := limited(c)
			var refused *echo.HTTPError
			unknown := errors.Is(err, semaphore.ErrUnknown)
			if was := missing.Swap(unknown); unknown && !was {
				a.log.ErrorContext(c.Request().Context(), "a route is closed: neither the rules file nor an operator has its semaphore", "semaphore", name, "route", c.Path())
			}
			switch {
			case unknown:
				return fmt.Errorf("%w %q", semaphore.ErrUnknown, name)
			case errors.Is(err, semaphore.ErrPermitLost):
				return problem.New(problem.StoreUnavailable) // the permit is not the caller's concern
			case errors.As(err, &refused) && refused.Internal != nil:
				return semdefs.Away(refused.Internal)
			}
			return err
		}
	}
}

// holderOf returns the name of a request in the list of holders.
func holderOf(r *request.Info) string {
	name := "request " + r.ID // at most 128 bytes
	if r.Grant.Name != "" {
		name += " of " + r.Grant.Name
	}
	return semaphore.HolderName(name)
}

// ordersCSV streams page by page, until the client disconnects or the permit is lost.
func (a *API) ordersCSV(c echo.Context) error {
	ctx, sale := c.Request().Context(), c.Param("sale")
	err := reports.WriteOrders(ctx, &attachment{c: c, name: "orders-" + sale + ".csv"}, a.orders, sale)
	if err == nil || !c.Response().Committed {
		return err
	}
	if !errors.Is(err, context.Canceled) {
		a.log.WarnContext(ctx, "report cut off", "sale", sale, "error", err)
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
