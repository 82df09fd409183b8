package request

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/time/rate"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/response"
)

// An ErrorWriter answers requests with problems, and logs their causes. Make it with NewErrorWriter.
type ErrorWriter struct {
	log   *slog.Logger
	paced *rate.Sometimes // a store that is away makes every request fail
}

// NewErrorWriter returns an ErrorWriter that logs to log: each fault, and every ten seconds at most one request that a store did
// not answer.
func NewErrorWriter(log *slog.Logger) ErrorWriter {
	return ErrorWriter{log, &rate.Sometimes{Interval: 10 * time.Second}}
}

// Fail answers with the problem for err.
func (w ErrorWriter) Fail(c echo.Context, err error) {
	if c.Response().Committed {
		return
	}
	p := problem.Of(err)
	w.Finish(c.Request().Context(), p)
	body, err := p.Encoded()
	if err != nil {
		w.log.ErrorContext(c.Request().Context(), "problem not encoded", "error", err)
	}
	c.Response().Header().Del(echo.HeaderContentType) // that a handler has set for another answer would stay
	_ = c.Blob(p.Status, p.ContentType(""), body)     // fails if the client has disconnected
}

// Finish sets a problem's header fields, and logs its cause.
func (w ErrorWriter) Finish(ctx context.Context, p *problem.Problem) {
	r := Of(ctx)
	r.Reason = p.Reason
	r.Header["Cache-Control"] = response.NoStore
	if p.RetryAfter > 0 {
		r.Header["Retry-After"] = []string{strconv.FormatInt(response.CeilSeconds(p.RetryAfter), 10)}
	}
	if p.Room != "" {
		r.Header["Link"] = []string{"<" + string(p.Room) + `>; rel="related"`}
	}
	if p.Status == http.StatusUnauthorized {
		r.Header["Www-Authenticate"] = []string{"Bearer"}
		if p.Token {
			r.Header["Www-Authenticate"] = []string{`Bearer error="invalid_token"`}
		}
	}
	w.LogCause(ctx, p)
}

// LogCause logs the cause, which the caller does not get, and sets Instance, by which it can be found in the log.
func (w ErrorWriter) LogCause(ctx context.Context, p *problem.Problem) {
	if p.Cause == nil {
		return
	}
	r := Of(ctx)
	logged := func() {
		p.Instance = "urn:tidegate:request:" + r.ID
		level := slog.LevelError
		if p.Reason == problem.StoreUnavailable {
			level = slog.LevelWarn
		}
		w.log.LogAttrs(ctx, level, "request failed", append(r.Attrs(), slog.Any("error", p.Cause))...)
	}
	if p.Reason == problem.StoreUnavailable {
		w.paced.Do(logged)
	} else {
		logged()
	}
}
