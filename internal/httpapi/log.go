package httpapi

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
)

// LogHandler adds attributes of the context to each record: request_id within a request, and trace_id and span_id within a
// trace. So all code that logs with a request's context names the request.
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

// attrs returns the log attributes of a request. They exclude the path, which may name users, permits and login attempts, and
// everything that the caller sent, except the names of a sale and an item.
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

// knownSale returns the sale of a request. Anonymous callers may send any text as its name, so it must exist for them.
func (r *request) knownSale() string {
	if sale := r.echo.Param("sale"); r.grant.Role != "" && orders.ValidName(sale) {
		return sale
	}
	return r.sale
}

// orderOf parses the id of a request's order, and records it.
func orderOf(ctx context.Context, id string) (orders.ID, error) {
	parsed, err := orders.ParseID(id)
	if err == nil {
		requestOf(ctx).order = parsed
	}
	return parsed, err
}

// logRequest logs each request, with LOG_LEVEL=debug only: otherwise logging would be the most expensive part of a refusal.
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

// knownMethod replaces methods that are not standard.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE":
		return method
	}
	return "_OTHER"
}
