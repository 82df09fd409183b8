package permits

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/semregistry"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreecho"
)

// Limit is the middleware of routes that need a permit of a semaphore. It refuses with a problem, as all other routes.
func (h *Handlers) Limit(name string, wait time.Duration) echo.MiddlewareFunc {
	var missing atomic.Bool // and logged; Echo calls the inner function for each request
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		sem, err := h.Semaphores.Semaphore(name)
		if err != nil {
			return func(echo.Context) error { return err }
		}
		limited := semaphoreecho.LimitWith(sem, semaphoreecho.Config{
			Wait: wait,
			Request: func(c echo.Context) (semaphore.Request, error) {
				return semaphore.Request{Holder: holderOf(request.Of(c.Request().Context()))}, nil
			},
			Refuse: func(_ echo.Context, full *semaphore.Refusal) error { return atCapacity(full) },
		})(next)
		return func(c echo.Context) error {
			err := limited(c)
			var refused *echo.HTTPError
			unknown := errors.Is(err, semaphore.ErrUnknown)
			if was := missing.Swap(unknown); unknown && !was {
				h.Log.ErrorContext(c.Request().Context(), "a route is closed: neither the rules file nor an operator has its semaphore", "semaphore",
					name, "route", c.Path())
			}
			switch {
			case unknown:
				c.Response().Header().Del("Retry-After") // it helps only where a permit is not free
				return failure.New(semaphore.ErrUnknown, "it is called %q", name)
			case errors.Is(err, semaphore.ErrPermitLost):
				return problem.New(problem.StoreUnavailable) // the permit is not the caller's concern
			case errors.As(err, &refused) && refused.Internal != nil:
				return semregistry.Away(refused.Internal)
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
