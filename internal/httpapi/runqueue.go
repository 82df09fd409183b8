package httpapi

import (
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
)

// Patterns of the routes that are queued, or whose bodies have another maximum.
var (
	placePattern, salePattern, orderPattern = route.Pattern(sales.OrdersPath), route.Pattern(sales.SalePath), route.Pattern(sales.OrderPath)

	roomPatterns = []string{route.Pattern(rooms.RoomPath), route.Pattern(rooms.PlacePath), route.Pattern(rooms.ClaimPath)}
)

// queued runs new orders and reads in separate queues. Other requests, such as changes of existing orders, are not queued.
func (a *API) queued(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, queue := request.Of(c.Request().Context()), a.reads
		switch method, path := c.Request().Method, c.Path(); {
		case method == http.MethodPost && path == placePattern:
			queue = a.newOrders
			r.ReadAhead(sales.MaxOrder + 1) // a slow sender must not hold a slot
		case slices.Contains(roomPatterns, path) && method != http.MethodDelete && method != http.MethodPut:
		case method != http.MethodGet || path != salePattern && path != orderPattern:
			return next(c)
		}
		slot, ok := queue.Enter()
		r.Slot = slot
		defer r.Slot.Leave()
		c.Response().Before(r.Slot.Leave) // a slow reader must not hold a slot
		if ok {
			return next(c)
		}
		p := problem.New(problem.AtCapacity)
		p.RetryAfter = a.capacity.RetryAfter()
		a.charger.Answered(r, p)
		return p
	}
}
