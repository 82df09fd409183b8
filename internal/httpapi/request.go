package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/orders"
)

// A request is what the middleware knows about a request.
type request struct {
	id      string
	caller  auth.Caller
	grant   auth.Grant         // on the internal listener
	placing bool               // an order; the page records its final result only
	body    []byte             // of an order, if it has arrived completely
	slot    loadshed.Slot      // until it waits for something else
	stay    loadshed.Stay      // while it is decided
	charged admission.Decision // of the rules that let it in
	header  http.Header
	http    *http.Request
	echo    echo.Context // not valid after the response

	// Attributes for logs and traces, as far as known.
	sale   string // an existing sale
	item   string // an existing item of that sale
	order  orders.ID
	reason string // of the problem in the response
}

type requestKey struct{}

func requestOf(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

// viewer returns how the caller sees orders: services and operators see all.
func (r *request) viewer() orders.Viewer {
	return orders.Viewer{User: r.caller.User, All: r.grant.Role.May(auth.ForReaders)}
}

// track reports how every request was answered.
func (a *API) track(listener string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			began := time.Now()
			span := a.trace(listener, c)
			r := a.identified(c)
			defer func() { endTrace(span, r, c.Response().Status) }() // also for a response that is cut off
			err := a.follow(c, next)
			took := time.Since(began)
			if a.served != nil && c.Path() != eventsPath { // it lasts as long as the page is open
				a.served(Served{listener, c.Request().Method, c.Path(), c.Response().Status, took})
			}
			a.logRequest(r, c.Response().Status, took)
			return err
		}
	}
}

// A Served is an answered request.
type Served struct {
	Listener string // public or internal
	Method   string // as the client sent it
	Route    string // its pattern; "" if no route matches
	Status   int
	Took     time.Duration
}

// identified gives a request its id.
func (a *API) identified(c echo.Context) *request {
	httpReq := c.Request()
	r := &request{header: c.Response().Header(), id: httpReq.Header.Get(echo.HeaderXRequestID), echo: c}
	if !input.Visible(r.id, 128) {
		r.id = rand.Text()
	}
	r.header[echo.HeaderXRequestID] = []string{r.id}
	r.http = httpReq.WithContext(context.WithValue(httpReq.Context(), requestKey{}, r))
	c.SetRequest(r.http)
	return r
}

// follow turns errors and panics into problems.
func (a *API) follow(c echo.Context, next echo.HandlerFunc) error {
	defer a.recover(c)
	if err := next(c); err != nil {
		a.fail(c, err)
	}
	return nil
}

func (a *API) recover(c echo.Context) {
	thrown := recover()
	if thrown == nil {
		return
	}
	err, _ := thrown.(error)
	if errors.Is(err, http.ErrAbortHandler) {
		panic(thrown)
	}
	if c.Response().Committed {
		// A partial response must not look complete. In most cases the client disconnected while it was written.
		a.log.DebugContext(c.Request().Context(), "answer cut off", "error", fmt.Sprint(thrown))
		panic(http.ErrAbortHandler)
	}
	a.fail(c, fmt.Errorf("panic: %v\n%s", thrown, debug.Stack()))
}

// fail answers with the problem for err.
func (a *API) fail(c echo.Context, err error) {
	if c.Response().Committed {
		return
	}
	p := problemOf(err)
	a.finish(c.Request().Context(), p)
	body, err := p.encoded()
	if err != nil {
		a.log.ErrorContext(c.Request().Context(), "problem not encoded", "error", err)
	}
	_ = c.Blob(p.Status, p.ContentType(""), body) // fails if the client has disconnected
}

// finish sets a problem's header fields, and logs its cause.
func (a *API) finish(ctx context.Context, p *Problem) {
	r := requestOf(ctx)
	r.reason = p.Reason
	r.header["Cache-Control"] = noStore
	if p.retryAfter > 0 {
		r.header["Retry-After"] = []string{strconv.FormatInt(ceilSeconds(p.retryAfter), 10)}
	}
	if p.Status == http.StatusUnauthorized && r.header["Www-Authenticate"] == nil {
		r.header["Www-Authenticate"] = []string{"Bearer"}
	}
	a.logCause(ctx, p)
}

// logCause logs the cause, which the caller does not get, and sets Instance, by which it can be found in the log.
func (a *API) logCause(ctx context.Context, p *Problem) {
	if p.cause == nil {
		return
	}
	r := requestOf(ctx)
	p.Instance = "urn:tidegate:request:" + r.id
	a.log.LogAttrs(ctx, slog.LevelError, "request failed", append(r.attrs(), slog.Any("error", p.cause))...)
}

var noStore = []string{"no-store"}
