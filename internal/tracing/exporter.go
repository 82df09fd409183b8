package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// sayAgain is how long a collector that comes and goes is not spoken of again.
const sayAgain = time.Minute

// exporter keeps errors from the SDK, which would write each of them to stderr. The SDK never exports twice at a time.
type exporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	lost int       // spans since they were last taken
	told bool      // that they are being lost
	said time.Time // when it was last
}

// ExportSpans sends spans, or loses them.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		if e.told {
			e.log.Info("sending traces works again", "spans_lost", e.lost)
		}
		e.told, e.lost = false, 0
		return nil
	}
	e.lost += len(spans)
	if !e.told && time.Since(e.said) >= sayAgain {
		e.told, e.said = true, time.Now()
		e.log.Warn("traces are lost: the collector does not accept them", "error", fmt.Sprintf("%.300s", err)) // which may quote a whole page
	}
	return nil
}
