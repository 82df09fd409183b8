package semaphoreecho

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/semaphore"
)

// Config of LimitWith. The zero value waits for nothing and takes one permit.
type Config struct {
	// Wait is how long a request waits for its permit. 0 and less mean not at all.
	Wait time.Duration
	// Request says what a request takes: its weight, other semaphores besides, such as one of its tenant, and the name by which it is listed.
	// ID and Try are not looked at, for two requests must never share a permit. An error goes to Echo's error handler. nil takes one permit.
	Request func(echo.Context) (semaphore.Request, error)
	// Refuse answers a request that got no permit. nil means the package's function of that name.
	Refuse func(echo.Context, *semaphore.CapacityError) error
}

// Limit lets a request into the handler when it has a permit of sem, for which it waits so long at most.
func Limit(sem *semaphore.Semaphore, wait time.Duration) echo.MiddlewareFunc {
	return LimitWith(sem, Config{Wait: wait})
}

// LimitWith is Limit with all that can be asked for.
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
			permit, err := acquire(c.Request().Context(), sem, req, cfg.Wait)
			var full *semaphore.CapacityError
			switch {
			case errors.As(err, &full):
				return cfg.Refuse(c, full)
			case errors.Is(err, semaphore.ErrInvalid):
				return err // of the program, not of the moment
			case err != nil:
				return unavailable(c, err)
			}
			return run(c, permit, next)
		}
	}
}

func acquire(ctx context.Context, sem *semaphore.Semaphore, req semaphore.Request, wait time.Duration) (*semaphore.Permit, error) {
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
	// The answer may be sent already, and the caller cannot help it: what was not given back ends with its lease.
	defer func() { _ = permit.Release() }()
	r := c.Request()
	ctx, cancel := permit.Under(context.WithValue(r.Context(), permitKey{}, permit))
	defer cancel()
	c.SetRequest(r.WithContext(ctx))
	defer c.SetRequest(r) // others that come after look at a context that has not ended
	err := next(c)
	if lost := context.Cause(permit.Context()); err != nil && lost != nil && !c.Response().Committed {
		return unavailable(c, errors.Join(lost, err))
	}
	return err
}

type permitKey struct{}

// PermitOf returns the permit that the request of this context holds, whose Token fences what the handler writes; nil if it holds none.
func PermitOf(ctx context.Context) *semaphore.Permit {
	permit, _ := ctx.Value(permitKey{}).(*semaphore.Permit)
	return permit
}

func unavailable(c echo.Context, err error) error {
	c.Response().Header().Set("Retry-After", "1")
	return echo.NewHTTPError(http.StatusServiceUnavailable).SetInternal(err)
}

// Refuse answers with the problem temporary-reduced-capacity.
func Refuse(c echo.Context, full *semaphore.CapacityError) error {
	body, err := json.Marshal(struct {
		Type     string `json:"type"`
		Title    string `json:"title"`
		Status   int    `json:"status"`
		Reason   string `json:"reason"`
		Position int    `json:"position"`
	}{
		Type:   "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		Title:  http.StatusText(http.StatusServiceUnavailable),
		Status: http.StatusServiceUnavailable, Reason: "at_capacity", Position: full.Position,
	})
	if err != nil {
		return err
	}
	h := c.Response().Header()
	h.Set("Retry-After", strconv.FormatInt(max(1, int64((full.Wait+time.Second-1)/time.Second)), 10))
	h.Set("Cache-Control", "no-store")
	return c.Blob(http.StatusServiceUnavailable, "application/problem+json", body)
}
