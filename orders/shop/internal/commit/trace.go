package commit

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
)

// traceHandle returns the span of the message's consumer, linked to all its producers. A task without headers, or with some that
// cannot be read, begins a trace.
func (w *Worker) traceHandle(ctx context.Context, task *tasks.Task) (context.Context, trace.Span) {
	if w.Tracer == nil {
		return ctx, core.NoSpan
	}
	var links []trace.Link
	for _, parent := range append([]string{task.Headers["traceparent"]}, strings.Split(task.Headers[core.TraceLinks], ",")...) {
		producer := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
		if sc := trace.SpanContextFromContext(producer); sc.IsValid() && len(links) < queue.TaskMax {
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(task.Headers))
	return w.Tracer.Start(ctx, "handle "+task.Queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(
			core.Messaging, semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("handle"),
			semconv.MessagingDestinationName(task.Queue), semconv.MessagingMessageID(task.ID)))
}

// traceBatch returns the span of a transaction, which is linked to its orders. It belongs to the trace of the first one: a
// sampler with a low rate would rarely keep a separate trace.
func (c *Committer) traceBatch(ctx context.Context, n int, from []trace.SpanContext) (context.Context, trace.Span) {
	if c.Tracer == nil {
		return ctx, core.NoSpan
	}
	if len(from) > 0 {
		ctx = trace.ContextWithSpanContext(ctx, from[0])
	}
	links := make([]trace.Link, len(from))
	for i := range from {
		links[i].SpanContext = from[i]
	}
	return c.Tracer.Start(ctx, "commit", trace.WithLinks(links...), trace.WithAttributes(semconv.MessagingBatchMessageCount(n)))
}
