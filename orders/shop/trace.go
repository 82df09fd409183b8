package shop

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/tasks"
)

// noSpan is every span of a service without a tracer. Data for traces is made only if IsRecording, so that disabled tracing
// costs nothing.
var noSpan trace.Span = noop.Span{}

// Attributes of spans. None names a buyer: people who may read traces may not be allowed to see orders.
const (
	attrOrder    = attribute.Key("tidegate.order_id")
	attrSale     = attribute.Key("tidegate.sale")
	attrItem     = attribute.Key("tidegate.item")
	attrReason   = attribute.Key("tidegate.reason")
	attrReplayed = attribute.Key("tidegate.replayed")
)

var messaging = semconv.MessagingSystemKey.String("asynq")

// trace returns the span of a reservation or a replay, or noSpan.
func (a *Attempt) trace(ctx context.Context, mode reserveMode) (context.Context, trace.Span) {
	if a.reserver.opts.Tracer == nil {
		return ctx, noSpan
	}
	name := "reserve"
	if mode == modeRepeat {
		name = "replay"
	}
	return a.reserver.opts.Tracer.Start(ctx, name, trace.WithAttributes(attrSale.String(a.cachedItem.sale.ID), attrItem.String(a.cachedItem.item.ID)))
}

func (c *core) endReserve(span trace.Span, out *orders.Outcome, err error) {
	if span.IsRecording() {
		fail(span, err)
		if out.Reason != "" {
			span.SetAttributes(attrReason.String(string(out.Reason)))
		}
		if out.Order.ID != (orders.ID{}) {
			span.SetAttributes(attrOrder.String(c.Shown(out.Order.ID, out.Order.Buyer).String()), attrReplayed.Bool(out.Replayed))
		}
	}
	span.End()
}

// traceLinks is the header with the producers of all orders of a task, as traceparents joined by commas.
const traceLinks = "tidegate-links"

// traceEnqueue returns a producer span for each traced order, in its trace, and the headers that link the consumer to them. The
// consumer's span belongs to the trace of the first order; the others are linked to it. Without traces there are no headers.
func (c *core) traceEnqueue(ctx context.Context, batch []offered, task, queue string) ([]trace.Span, map[string]string) {
	if c.opts.Tracer == nil {
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
			messaging, semconv.MessagingOperationTypeSend, semconv.MessagingOperationName("enqueue"),
			semconv.MessagingDestinationName(queue), semconv.MessagingMessageID(task), attrOrder.String(c.Shown(o.r.ID, o.r.Buyer).String()))}
		if len(spans) > 0 {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: spans[0].SpanContext()}))
		}
		ctx, span := c.opts.Tracer.Start(trace.ContextWithSpanContext(ctx, o.from), "enqueue "+queue, options...)
		spans = append(spans, span)
		carrier := make(propagation.MapCarrier, 2)
		propagation.TraceContext{}.Inject(ctx, carrier)
		if headers == nil {
			headers = carrier
		} else if span.SpanContext().IsSampled() {
			headers[traceLinks] += "," + carrier["traceparent"]
		}
	}
	return spans, headers
}

// traceHandle returns the span of the message's consumer, linked to all its producers. A task without headers, or with some that
// cannot be read, begins a trace.
func (c *core) traceHandle(ctx context.Context, task *tasks.Task) (context.Context, trace.Span) {
	if c.opts.Tracer == nil {
		return ctx, noSpan
	}
	var links []trace.Link
	for _, parent := range append([]string{task.Headers["traceparent"]}, strings.Split(task.Headers[traceLinks], ",")...) {
		producer := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
		if sc := trace.SpanContextFromContext(producer); sc.IsValid() && len(links) < taskMax {
			links = append(links, trace.Link{SpanContext: sc})
		}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier(task.Headers))
	return c.opts.Tracer.Start(ctx, "handle "+task.Queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...), trace.WithAttributes(
		messaging, semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("handle"),
		semconv.MessagingDestinationName(task.Queue), semconv.MessagingMessageID(task.ID)))
}

// traceBatch returns the span of a transaction, which is linked to its orders. It belongs to the trace of the first one: a
// sampler with a low rate would rarely keep a separate trace.
func (c *core) traceBatch(ctx context.Context, n int, from []trace.SpanContext) (context.Context, trace.Span) {
	if c.opts.Tracer == nil {
		return ctx, noSpan
	}
	if len(from) > 0 {
		ctx = trace.ContextWithSpanContext(ctx, from[0])
	}
	links := make([]trace.Link, len(from))
	for i := range from {
		links[i].SpanContext = from[i]
	}
	return c.opts.Tracer.Start(ctx, "commit", trace.WithLinks(links...), trace.WithAttributes(semconv.MessagingBatchMessageCount(n)))
}

var errorTypes = []struct {
	is   error
	kind attribute.KeyValue
}{
	{orders.ErrPoison, semconv.ErrorTypeKey.String("poison")},
	{orders.ErrRecovering, semconv.ErrorTypeKey.String("recovering")},
	{orders.ErrUnavailable, semconv.ErrorTypeKey.String("unavailable")},
	{context.Canceled, semconv.ErrorTypeKey.String("canceled")},
}

func endSpan(span trace.Span, err error) {
	fail(span, err)
	span.End()
}

// fail records the kind of an error. It omits the text, which may contain personal data.
func fail(span trace.Span, err error) {
	if err == nil || !span.IsRecording() {
		return
	}
	kind := semconv.ErrorTypeOther
	for _, known := range errorTypes {
		if errors.Is(err, known.is) {
			kind = known.kind
			break
		}
	}
	span.SetAttributes(kind)
	span.SetStatus(codes.Error, "")
}
