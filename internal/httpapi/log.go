package httpapi

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
)

// LogHandler adds to each record what its context knows: request_id within a request, and trace_id and span_id within a trace. So
// whatever logs on behalf of a request names it, without knowing of requests.
func LogHandler(next slog.Handler) slog.Handler {
	if already, ok := next.(logHandler); ok {
		return already
	}
	return logHandler{next}
}

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	if r, ok := ctx.Value(requestKey{}).(*request); ok {
		record.AddAttrs(slog.String("request_id", r.id))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, record)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }

// attrs is what the log says of a request. The path is not among it, since users, permits and login attempts are named there; nor is
// anything that its caller sent, but the names of a sale and an item.
func (r *request) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("method", knownMethod(r.http.Method)), slog.String("route", r.echo.Path())}
	if sale := r.knownSale(); sale != "" {
		attrs = append(attrs, slog.String("sale", sale))
	}
	if r.item != "" {
		attrs = append(attrs, slog.String("item", r.item))
	}
	if r.order != (orders.ID{}) {
		attrs = append(attrs, slog.String("order_id", r.order.String()))
	}
	return attrs
}

// knownSale is the one that a request is about. What strangers write in its place may be anything.
func (r *request) knownSale() string {
	if sale := r.echo.Param("sale"); r.role != "" && orders.ValidName(sale) {
		return sale
	}
	return r.sale
}

// orderOf reads the id of the order that a request is about.
func orderOf(ctx context.Context, id string) (orders.ID, error) {
	parsed, err := orders.ParseID(id)
	if err == nil {
		requestOf(ctx).order = parsed
	}
	return parsed, err
}

// logRequest leaves a line for each request, with LOG_LEVEL=debug only: it would be the most expensive part of a refusal.
func (a *API) logRequest(r *request, status int, took time.Duration) {
	ctx := r.http.Context()
	if !a.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := append(r.attrs(), slog.Int("status", status), slog.Float64("took_ms", float64(took.Microseconds())/1000))
	if r.reason != "" {
		attrs = append(attrs, slog.String("reason", r.reason))
	}
	a.log.LogAttrs(ctx, slog.LevelDebug, "request", attrs...)
}

// knownMethod does not repeat what somebody made up.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE":
		return method
	}
	return "_OTHER"
}
