package koalahttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

// Service decides by a rule file in Koala's format, as a *koala.Service does.
type Service interface {
	Browse(ctx context.Context, params koala.Params, write bool) (koala.Result, error)
	BrowseComplete(ctx context.Context, params koala.Params, write bool) ([]koala.Result, error)
	BrowseAll(ctx context.Context, requests []koala.Params) ([]koala.Answer, error)
	Update(ctx context.Context, params koala.Params) error
	Feedback(ctx context.Context, params koala.Params, erase int) error
	Value(ctx context.Context, params koala.Params, code int) (int, error)
	Today() (date string, rules []koala.Tally)
	Policy() koala.Dump
	Alive(ctx context.Context) error
	Reload() error
}

// Handlers are the handlers for Koala's endpoints. They share one receiver, because all need the service.
type Handlers struct {
	service Service
	log     *slog.Logger
}

// New makes the handlers.
func New(service Service, log *slog.Logger) *Handlers {
	return &Handlers{service: service, log: log}
}

// Path is the prefix of Koala's endpoints.
const Path = "/koala"

// koalaError is an error in Koala's format, with its status.
type koalaError struct {
	status int
	Number int    `json:"err_no"`
	Text   string `json:"err_msg"`
}

func (e *koalaError) Error() string { return e.Text }

func invalid(text string) error { return &koalaError{http.StatusBadRequest, -1, text} }

var ok = koalaError{Text: "OK"}

func (h *Handlers) serve(e endpoint) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		params, err := parseParams(c.Request().URL.RawQuery)
		if err == nil {
			err = refuseUnknown(params, e.own...)
		}
		var answer any
		if err == nil {
			answer, err = e.answer(h, ctx, params)
		}
		status, body := http.StatusOK, []byte(nil)
		if err == nil {
			body, err = marshal(answer)
		}
		if err != nil {
			status, body = h.koalaFailed(ctx, e, err)
		}
		if h.log.Enabled(ctx, slog.LevelDebug) { // like Koala's access log; it contains personal data
			h.log.LogAttrs(ctx, slog.LevelDebug, "koala", slog.String("route", Path+e.path),
				slog.Any("params", params), slog.Int("status", status), slog.String("body", string(body)))
		}
		c.Response().Header().Set("Cache-Control", "no-store")
		return c.Blob(status, echo.MIMEApplicationJSON, body)
	}
}

// marshal does not escape < and &: clients show the texts to people.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// koalaFailed returns Koala's response for an error.
func (h *Handlers) koalaFailed(ctx context.Context, e endpoint, err error) (status int, body []byte) {
	var failure *koalaError
	switch {
	case errors.As(err, &failure):
	case errors.Is(err, koala.ErrInvalid), errors.Is(err, admission.ErrInvalidRequest):
		failure = &koalaError{http.StatusBadRequest, -1, err.Error()}
	case errors.Is(err, koala.ErrUnknownRule):
		failure = &koalaError{http.StatusBadRequest, -2, "unknown rule_no!"}
	default:
		h.log.LogAttrs(ctx, slog.LevelError, "request failed", append(request.Of(ctx).Attrs(), slog.Any("error", err))...)
		failed := e.failed
		if failed == nil {
			failed = unavailable
		}
		return http.StatusInternalServerError, mustMarshal(failed)
	}
	return failure.status, mustMarshal(failure)
}

// mustMarshal is marshal for values of numbers and texts, which cannot fail.
func mustMarshal(v any) []byte {
	body, err := marshal(v)
	if err != nil {
		panic(err)
	}
	return body
}

// parseParams parses a query. It refuses duplicate names: one value would be counted and the other one matched.
func parseParams(query string) (koala.Params, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, invalid("the parameters must be like act=ask&uid=7, percent-encoded: " + err.Error())
	}
	params := make(koala.Params, len(values))
	for name, all := range values {
		if len(all) > 1 {
			return nil, invalid("the parameter " + strconv.Quote(name) + " comes twice")
		}
		params[name] = all[0]
	}
	return params, nil
}
