package route

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

// Handler serves h, which does not know problems: an error that it answers with becomes one.
func Handler(h http.Handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		w := &errorTaker{ResponseWriter: c.Response()}
		h.ServeHTTP(w, c.Request())
		if w.status == 0 {
			return nil
		}
		p := problem.New(problem.OfStatus(w.status))
		if p.Reason == problem.Internal {
			p.Cause = errors.New(strings.TrimSpace(string(w.text)))
		}
		if w.Header().Get("Retry-After") != "" {
			p.RetryAfter = 0
		}
		return p
	}
}

// errorTaker keeps an answer that is an error.
type errorTaker struct {
	http.ResponseWriter

	status int // of the error; 0: there is none
	text   []byte
}

// WriteHeader implements http.ResponseWriter.
func (w *errorTaker) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *errorTaker) Write(b []byte) (int, error) {
	if w.status != 0 {
		w.text = append(w.text, b...)
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *errorTaker) Unwrap() http.ResponseWriter { return w.ResponseWriter }
