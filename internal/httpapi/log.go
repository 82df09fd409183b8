package httpapi

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/httpapi/request"
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
	if r, ok := request.From(ctx); ok {
		record.AddAttrs(slog.String("request_id", r.ID))
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

// logRequest logs each request, with LOG_LEVEL=debug only: otherwise logging would be the most expensive part of a refusal.
func (a *API) logRequest(r *request.Info, status int, took time.Duration) {
	ctx := r.HTTP.Context()
	if !a.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := append(r.Attrs(), slog.Int("status", status), slog.Float64("took_ms", float64(took.Microseconds())/1000))
	if r.Reason != "" {
		attrs = append(attrs, slog.String("reason", r.Reason))
	}
	a.log.LogAttrs(ctx, slog.LevelDebug, "request", attrs...)
}
