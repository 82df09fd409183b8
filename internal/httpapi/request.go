package httpapi

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/live"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/response"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/internal/input"
)

var roomEventsPattern = route.Pattern(rooms.EventsPath)

// track reports how every request was answered.
func (a *API) track(listener string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			began := time.Now()
			span := a.trace(listener, c)
			r := a.identified(c)
			r.Began = began
			defer func() { endTrace(span, r, c.Response().Status) }() // also for a response that is cut off
			err := a.follow(c, next)
			took := time.Since(began)
			if a.cfg.Served != nil && c.Path() != live.EventsPath && c.Path() != roomEventsPattern { // they last as long as a page is open
				a.cfg.Served(Served{listener, c.Request().Method, c.Path(), c.Response().Status, took})
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
func (a *API) identified(c echo.Context) *request.Info {
	httpReq := c.Request()
	r := &request.Info{Header: c.Response().Header(), ID: httpReq.Header.Get(echo.HeaderXRequestID), Echo: c}
	if !input.Visible(r.ID, 128) {
		r.ID = rand.Text()
	}
	r.Header[echo.HeaderXRequestID] = r.IDs()
	r.Header["Cache-Control"] = response.NoStore // unless the handler allows more
	r.HTTP = httpReq.WithContext(request.NewContext(httpReq.Context(), r))
	c.SetRequest(r.HTTP)
	return r
}

// follow turns errors and panics into problems.
func (a *API) follow(c echo.Context, next echo.HandlerFunc) error {
	defer a.recover(c)
	if err := next(c); err != nil {
		a.errors.Fail(c, err)
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
	a.errors.Fail(c, fmt.Errorf("panic: %v\n%s", thrown, debug.Stack()))
}
