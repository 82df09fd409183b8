package queue

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// traceEnqueue returns a producer span for each traced order, in its trace, and the headers that link the consumer to them. The
// consumer's span belongs to the trace of the first order; the others are linked to it. Without traces there are no headers.
func (e *Enqueuer) traceEnqueue(ctx context.Context, batch []Offered, task, queue string) ([]trace.Span, map[string]string) {
	if e.Tracer == nil {
		return nil, nil
	}
	var (
		spans   []trace.Span
		headers map[string]string
	)
	for _, o := range batch {
		if !o.from.IsValid() {
			continue
		}
		options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
			core.Messaging, semconv.MessagingOperationTypeSend, semconv.MessagingOperationName("enqueue"),
			semconv.MessagingDestinationName(queue), semconv.MessagingMessageID(task), core.AttrOrder.String(e.Shown(o.R.ID, o.R.Buyer).String()))}
		if len(spans) > 0 {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: spans[0].SpanContext()}))
		}
		ctx, span := e.Tracer.Start(trace.ContextWithSpanContext(ctx, o.from), "enqueue "+queue, options...)
		spans = append(spans, span)
		carrier := make(propagation.MapCarrier, 2)
		propagation.TraceContext{}.Inject(ctx, carrier)
		if headers == nil {
			headers = carrier
		} else if span.SpanContext().IsSampled() {
			headers[core.TraceLinks] += "," + carrier["traceparent"]
		}
	}
	return spans, headers
}
