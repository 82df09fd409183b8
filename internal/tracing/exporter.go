package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// logAgain is the minimum time between two warnings about a collector that fails and recovers.
const logAgain = time.Minute

// exporter keeps errors from the SDK, which would write each of them to stderr. The SDK never exports twice at a time.
type exporter struct {
	sdktrace.SpanExporter
	log      *slog.Logger
	lost     int       // spans since the last successful export
	warned   bool      // that spans are being lost
	warnedAt time.Time // zero: never
}

// ExportSpans sends spans, or loses them.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		if e.warned {
			e.log.Info("sending traces works again", "spans_lost", e.lost)
		}
		e.warned, e.lost = false, 0
		return nil
	}
	e.lost += len(spans)
	if !e.warned && time.Since(e.warnedAt) >= logAgain {
		e.warned, e.warnedAt = true, time.Now()
		e.log.Warn("traces are lost: the collector does not accept them", "error", fmt.Sprintf("%.300s", err)) // which may quote a whole page
	}
	return nil
}
