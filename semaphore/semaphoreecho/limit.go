package semaphoreecho

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpproblem"
	"github.com/tidegate/tidegate/semaphore"
)

// Config of LimitWith. With the zero value requests do not wait and take one permit.
type Config struct {
	// Wait is how long a request waits for its permit. 0 or less means not at all.
	Wait time.Duration
	// Request returns what a request acquires: the weight, other semaphores, such as one for its tenant, and the holder's name. ID and
	// Try are ignored, because two requests must never share a permit. An error goes to Echo's error handler. nil acquires one permit.
	Request func(echo.Context) (semaphore.Request, error)
	// Refuse answers a request that got no permit. nil means the package's function Refuse.
	Refuse func(echo.Context, *semaphore.Refusal) error
}

// Limit passes a request to the handler when it has a permit of sem, for which it waits at most the given time.
func Limit(sem *semaphore.Semaphore, wait time.Duration) echo.MiddlewareFunc {
	return LimitWith(sem, Config{Wait: wait})
}

// LimitWith is Limit with all options.
func LimitWith(sem *semaphore.Semaphore, cfg Config) echo.MiddlewareFunc {
	if cfg.Request == nil {
		cfg.Request = func(echo.Context) (semaphore.Request, error) { return semaphore.Request{}, nil }
	}
	if cfg.Refuse == nil {
		cfg.Refuse = Refuse
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			req, err := cfg.Request(c)
			if err != nil {
				return err
			}
			permit, full, err := acquire(c.Request().Context(), sem, req, cfg.Wait)
			switch {
			case full != nil:
				return cfg.Refuse(c, full)
			case errors.Is(err, semaphore.ErrInvalid):
				return err // an error in the program, not a temporary one
			case err != nil:
				return unavailable(c, err)
			}
			return run(c, permit, next)
		}
	}
}

func acquire(
	ctx context.Context, sem *semaphore.Semaphore, req semaphore.Request, wait time.Duration,
) (*semaphore.Permit, *semaphore.Refusal, error) {
	req.ID, req.Try = "", wait <= 0
	if !req.Try {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	return sem.AcquireWith(ctx, req)
}

// run calls next while the permit is held.
func run(c echo.Context, permit *semaphore.Permit, next echo.HandlerFunc) error {
	// The response may have been sent, and the client cannot do anything about an error: the permit then ends with its lease.
	defer func() { _ = permit.Release() }()
	r := c.Request()
	ctx, cancel := permit.WithContext(context.WithValue(r.Context(), permitKey{}, permit))
	defer cancel()
	c.SetRequest(r.WithContext(ctx))
	defer c.SetRequest(r) // middleware that runs later needs a context that has not ended
	err := next(c)
	if lost := context.Cause(permit.Context()); err != nil && lost != nil && !c.Response().Committed {
		return unavailable(c, errors.Join(lost, err))
	}
	return err
}

type permitKey struct{}

// PermitOf returns the permit of the request with this context, whose Token fences the handler's writes; nil if it has none.
func PermitOf(ctx context.Context) *semaphore.Permit {
	permit, _ := ctx.Value(permitKey{}).(*semaphore.Permit)
	return permit
}

func unavailable(c echo.Context, err error) error {
	c.Response().Header().Set("Retry-After", "1")
	return echo.NewHTTPError(http.StatusServiceUnavailable).SetInternal(err)
}

// Refuse answers with the problem temporary-reduced-capacity.
func Refuse(c echo.Context, full *semaphore.Refusal) error {
	c.Response().Header().Set("Retry-After", strconv.FormatInt(max(1, int64((full.Wait+time.Second-1)/time.Second)), 10))
	return httpproblem.Problem{
		Type:   "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		Status: http.StatusServiceUnavailable, Reason: "at_capacity", Position: full.Position,
	}.Write(c.Response())
}
