package charge

import (
	"context"

	kv "go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

// startSpan begins the span of a decision by the rules.
func (c *Charger) startSpan(ctx context.Context) (context.Context, trace.Span) {
	if c.Tracer == nil {
		return ctx, request.NoSpan
	}
	return c.Tracer.Start(ctx, "decide")
}

func endSpan(span trace.Span, d *admission.Decision, err error) {
	switch {
	case !span.IsRecording():
	case err != nil:
		span.SetAttributes(semconv.ErrorTypeOther)
		span.SetStatus(codes.Error, "")
	default:
		span.SetAttributes(kv.Bool("tidegate.admitted", d.Admitted), kv.String("tidegate.rule", d.Rule),
			kv.String("tidegate.reason", string(d.Reason)))
	}
	span.End()
}
