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
	"github.com/tidegate/tidegate/orders"
)

// A request is what the middleware has found out about one.
type request struct {
	id      string
	caller  Caller
	role    Role               // of the token; empty on the public listener
	token   string             // its name; empty also without tokens
	shown   token              // what was shown, or what the session is of; zero as well
	session bool               // by the page's cookie
	placing bool               // it is an order, which the page is told of when it is decided as a whole
	body    []byte             // of an order, if it has arrived
	slot    runSlot            // until it asks something else
	stay    stay               // while it is decided
	charged admission.Decision // of the rules that let it in
	header  http.Header
	http    *http.Request
	echo    echo.Context // not to be used after the answer

	// What logs and traces say of it, as far as it is known.
	sale   string // that there is
	item   string // that is on sale there
	order  orders.ID
	reason string // of the problem that it was answered with
}

type requestKey struct{}

func requestOf(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }

// viewer is how the caller sees orders: services and operators see all.
func (r *request) viewer() orders.Viewer {
	return orders.Viewer{User: r.caller.User, All: r.role.may(forReaders)}
}

// track tells of every request how it was answered.
func (a *API) track(listener string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			began := time.Now()
			span := a.trace(listener, c)
			r := a.identified(c)
			defer func() { endTrace(span, r, c.Response().Status) }() // also of an answer that is cut off
			err := a.follow(c, next)
			took := time.Since(began)
			if a.served != nil && c.Path() != eventsPath { // it lasts as long as somebody looks
				a.served(Served{listener, c.Request().Method, c.Path(), c.Response().Status, took})
			}
			a.logRequest(r, c.Response().Status, took)
			return err
		}
	}
}

// A Served request was answered.
type Served struct {
	Listener string // public or internal
	Method   string // as the caller wrote it
	Route    string // its pattern; "" of paths that nothing is at
	Status   int
	Took     time.Duration
}

// identified gives a request its id.
func (a *API) identified(c echo.Context) *request {
	httpReq := c.Request()
	r := &request{header: c.Response().Header(), id: httpReq.Header.Get(echo.HeaderXRequestID), echo: c}
	if !visible(r.id, 128) {
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
		// Half an answer must not look like a whole one. Most often the
		// client hung up while it was written.
		a.log.DebugContext(c.Request().Context(), "answer cut off", "error", fmt.Sprint(thrown))
		panic(http.ErrAbortHandler)
	}
	a.fail(c, fmt.Errorf("panic: %v\n%s", thrown, debug.Stack()))
}

// fail answers with the problem that err is.
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
	_ = c.Blob(p.Status, p.ContentType(""), body) // fails when the client hung up: nobody is left to tell
}

// finish sets a problem's header fields, and logs what the caller is not told.
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

// logCause logs what the caller is not told, and tells the caller by what name to find it.
func (a *API) logCause(ctx context.Context, p *Problem) {
	if p.cause == nil {
		return
	}
	r := requestOf(ctx)
	p.Instance = "urn:tidegate:request:" + r.id
	a.log.LogAttrs(ctx, slog.LevelError, "request failed", append(r.attrs(), slog.Any("error", p.cause))...)
}

var noStore = []string{"no-store"}

// visible tells whether s has 1 to limit characters, all of them visible ASCII (RFC 5234's VCHAR), so that it is one word
// in a header field and in a log.
func visible(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
