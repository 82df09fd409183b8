package request

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/admissionhttp"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/loadshed"
	"github.com/tidegate/tidegate/orders"
)

// Info is what is known about a request. Its middleware and its handler fill it in; only they use it, one after the other.
type Info struct {
	ID      string
	Began   time.Time
	Caller  auth.Caller
	Guard   *auth.Guard // gave the grant; nil on the public listener
	Grant   auth.Grant
	Placing bool               // an order; the page records its final result only
	Body    []byte             // of an order, if it has arrived completely
	Slot    loadshed.Slot      // until it waits for something else
	Stay    loadshed.Stay      // while it is decided
	Asked   admission.Request  // what the rules were asked last before serving it
	Charged admission.Decision // their answer; zero if they did not answer
	Header  http.Header
	HTTP    *http.Request
	Echo    echo.Context // not valid after the response

	// Attributes for logs and traces, as far as known.
	Sale   string    // an existing sale
	Item   string    // an existing item of that sale
	Order  orders.ID // as Shown names it
	Reason string    // of the problem in the response

	ctx     infoContext // of NewContext
	ids     [1]string
	arrived arrivedBody
}

type requestKey struct{}

// infoContext is like a context of context.WithValue, but a part of its value.
type infoContext struct {
	context.Context // the parent
	info            *Info
}

func (c *infoContext) Value(key any) any {
	if key == (requestKey{}) {
		return c.info
	}
	return c.Context.Value(key)
}

// NewContext returns a context with r, which can have only one.
func NewContext(ctx context.Context, r *Info) context.Context {
	r.ctx = infoContext{ctx, r}
	return &r.ctx
}

// IDs returns the id as the values of a header field.
func (r *Info) IDs() []string {
	r.ids[0] = r.ID
	return r.ids[:]
}

// Of returns what is known about the request of ctx.
func Of(ctx context.Context) *Info { return ctx.Value(requestKey{}).(*Info) }

// From is Of for a context that may be of no request.
func From(ctx context.Context) (r *Info, ok bool) {
	r, ok = ctx.Value(requestKey{}).(*Info)
	return r, ok
}

// MaxBody is the maximum size of a body in bytes, except that of an order.
const MaxBody = 64 << 10

// NoSpan is every span if there is no tracer. Data for traces is made only if IsRecording, so that disabled tracing costs nothing.
var NoSpan trace.Span = noop.Span{}

// LocalActor stands for the caller where no tokens are set.
const LocalActor = "local"

// Admission returns what the rules are asked about a request.
func (r *Info) Admission(proxies auth.Proxies) admission.Request {
	return admission.Request{
		User: r.Caller.User, IP: admissionhttp.ClientAddress(r.HTTP, proxies), Tier: r.Caller.Tier, Route: r.HTTP.URL.Path, Method: r.HTTP.Method,
	}
}

// Tier returns the caller's tier, as the rules see it.
func (r *Info) Tier() string {
	switch {
	case r.Caller.Tier != "":
		return r.Caller.Tier
	case r.Caller.User != "":
		return rules.TierRegistered
	}
	return rules.TierAnonymous
}

// Viewer returns how the caller sees orders: services and operators see all.
func (r *Info) Viewer() orders.Viewer {
	return orders.Viewer{User: r.Caller.User, All: r.Grant.Role.May(auth.ForReaders)}
}

// Attrs returns the log attributes of a request. They exclude the path, which may name users, permits and login attempts, and
// everything that the caller sent, except the names of a sale and an item.
func (r *Info) Attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("method", KnownMethod(r.HTTP.Method)), slog.String("route", r.Echo.Path())}
	if sale := r.KnownSale(); sale != "" {
		attrs = append(attrs, slog.String("sale", sale))
	}
	if r.Item != "" {
		attrs = append(attrs, slog.String("item", r.Item))
	}
	if r.Order != (orders.ID{}) {
		attrs = append(attrs, slog.String("order_id", r.Order.String()))
	}
	return attrs
}

// KnownSale returns the sale of a request. Anonymous callers may send any text as its name, so it must exist for them.
func (r *Info) KnownSale() string {
	if sale := r.Echo.Param("sale"); r.Grant.Role != "" && orders.ValidName(sale) {
		return sale
	}
	return r.Sale
}

// KnownMethod replaces methods that are not standard.
func KnownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE":
		return method
	}
	return "_OTHER"
}

// ReadAhead reads the body of an order, up to most bytes. Later readers get what has arrived by now, and its error, without
// waiting.
func (r *Info) ReadAhead(most int64) {
	req := r.Echo.Request()
	body, err := readBody(req, most)
	body = bytes.TrimPrefix(body, bom)
	if err == nil {
		r.Body = body
	}
	r.arrived = arrivedBody{*bytes.NewReader(body), err}
	req.Body = &r.arrived // the server closes the original
}

// bom is the BOM of UTF-8, which some programs write before JSON.
var bom = []byte("\uFEFF")

// WithoutBOM returns a body without the BOM at its beginning.
func WithoutBOM(body io.ReadCloser) io.ReadCloser { return &withoutBOM{ReadCloser: body} }

type withoutBOM struct {
	io.ReadCloser
	begun bool
	rest  []byte // of the first bytes
}

func (b *withoutBOM) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		first := make([]byte, len(bom))
		n, err := io.ReadFull(b.ReadCloser, first)
		if b.rest = bytes.TrimPrefix(first[:n], bom); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	if len(b.rest) > 0 {
		n := copy(p, b.rest)
		b.rest = b.rest[n:]
		return n, nil
	}
	return b.ReadCloser.Read(p)
}

// readBody reads at most most bytes, with one allocation if the client sends their number.
func readBody(req *http.Request, most int64) ([]byte, error) {
	if req.ContentLength < 0 || req.ContentLength > most {
		return io.ReadAll(io.LimitReader(req.Body, most))
	}
	body := make([]byte, req.ContentLength)
	n, err := io.ReadFull(req.Body, body)
	return body[:n], err
}

// An arrivedBody is a body that was read, and the error that ended it early.
type arrivedBody struct {
	arrived bytes.Reader
	err     error
}

func (b *arrivedBody) Read(p []byte) (int, error) {
	n, err := b.arrived.Read(p)
	if err != nil && b.err != nil {
		err = b.err
	}
	return n, err
}

func (*arrivedBody) Close() error { return nil }
