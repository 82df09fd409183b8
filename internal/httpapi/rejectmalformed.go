package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/rooms"
	"github.com/tidegate/tidegate/internal/httpapi/sales"
	"github.com/tidegate/tidegate/internal/input"
)

// drained is the size up to which a body that is too large is read, that of net/http.
const drained = 256 << 10

// single are the fields that may be sent only once. With two values it would be unclear which one to trust: a proxy that
// appends its value to the client's instead of replacing it would let clients choose their identity.
var single = []string{
	"X-User-Id", "X-User-Tier", "Idempotency-Key", "X-Captcha", "Authorization", "X-Tidegate-Token", rooms.TokenField,
	admit.PassField,
}

// rejectMalformed refuses requests that are malformed in ways that handlers need not check.
func rejectMalformed(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		for _, name := range single {
			if n := len(r.Header[name]); n > 1 {
				return problem.InvalidAt("header."+name, fmt.Sprintf("must be sent once, got %d", n))
			}
		}
		if len(r.TransferEncoding) > 0 {
			// The request may also have had a Content-Length, which net/http drops: a proxy that used it would take the bytes
			// after the body for the next request (RFC 9112, section 6.3).
			c.Response().Header().Set("Connection", "close")
		}
		if r.ContentLength == 0 || admit.IsAuthz(c.Path()) { // a gateway's fields about a body describe its client's, which is not read
			return next(c)
		}
		most := int64(request.MaxBody)
		if c.Path() == placePattern {
			most = sales.MaxOrder // ReadAhead skips a BOM
		} else {
			r.Body = request.WithoutBOM(r.Body)
		}
		if r.Method == http.MethodPut && c.Path() == salePattern {
			most = sales.MaxSale
		}
		if r.ContentLength > most { // Huma counts bodies without a Content-Length
			if r.ContentLength <= drained && r.Header.Get("Expect") == "" {
				// A client that is still writing when the connection ends does not see the response. net/http reads the rest only of those
				// that keep their connection.
				_, _ = io.Copy(io.Discard, r.Body)
			}
			return problem.New(problem.TooLarge)
		}
		if wrong := spokenJSON(r.Header); wrong != "" {
			p := problem.New(problem.UnsupportedMediaType)
			p.Detail = wrong
			return p
		}
		if r.Method == http.MethodGet { // no handler reads it, and a stream would keep the connection while it arrives
			switch n, err := io.Copy(io.Discard, io.LimitReader(r.Body, most+1)); {
			case errors.Is(err, os.ErrDeadlineExceeded):
				return problem.New(problem.Timeout)
			case err != nil:
				return problem.New(problem.Malformed)
			case n > most:
				return problem.New(problem.TooLarge)
			}
		}
		return next(c)
	}
}

// spokenJSON returns what is wrong with the fields of a body that is not plain JSON in UTF-8, and rewrites other spellings of
// the type to the one that Huma accepts. A body without a type is refused: a form on any page can send one, with the browser's
// cookies.
func spokenJSON(header http.Header) (wrong string) {
	if header.Get("Content-Encoding") != "" {
		return "Content-Encoding must be left out: a body is read as it is sent."
	}
	if types := header["Content-Type"]; len(types) != 1 || types[0] != "application/json" {
		kind, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
		if charset, ok := parameters["charset"]; len(types) != 1 || err != nil || kind != "application/json" || ok &&
			!strings.EqualFold(charset, "utf-8") {
			return "Content-Type must be application/json, and sent once."
		}
		header.Set("Content-Type", "application/json")
	}
	return ""
}

// foreignPages refuses requests from pages of other origins, except the given ones: the proxy in front may identify its user by
// a cookie, which browsers add by themselves.
func foreignPages(origins []string) (echo.MiddlewareFunc, error) {
	protection := http.NewCrossOriginProtection()
	for _, o := range origins {
		if o == "*" {
			return func(next echo.HandlerFunc) echo.HandlerFunc { return next }, nil
		}
		if err := protection.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("httpapi: %w", err)
		}
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if protection.Check(r) == nil {
				return next(c)
			}
			p := problem.New(problem.Forbidden)
			p.Detail = fmt.Sprintf("A page must be of the host that it calls (here %s), or its origin must stand in CORS_ORIGINS; this one is "+
				"of %q.",
				input.Shortened(r.Host), input.Shortened(r.Header.Get("Origin")))
			return p
		}
	}, nil
}

// headAsGet routes HEAD like GET; the server omits the body, and a stream ends with its header. Load balancers probe with HEAD.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			ctx, answered := context.WithCancel(r.Context())
			defer answered()
			get := r.WithContext(ctx) // the server keeps its own copy
			get.Method = http.MethodGet
			r, w = get, headWriter{w, answered}
		}
		next.ServeHTTP(w, r)
	})
}

// headWriter ends the answer to a HEAD request when its handler flushes, as streams do.
type headWriter struct {
	http.ResponseWriter

	answered context.CancelFunc
}

// FlushError is for http.ResponseController.
func (w headWriter) FlushError() error {
	w.answered()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w headWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
