package core

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/tidegate/tidegate/orders"
)

// NoSpan is every span of a service without a tracer. Data for traces is made only if IsRecording, so that disabled tracing
// costs nothing.
var NoSpan trace.Span = noop.Span{}

// Attributes of spans. None names a buyer: people who may read traces may not be allowed to see orders.
const (
	AttrOrder    = attribute.Key("tidegate.order_id")
	AttrSale     = attribute.Key("tidegate.sale")
	AttrItem     = attribute.Key("tidegate.item")
	AttrReason   = attribute.Key("tidegate.reason")
	AttrReplayed = attribute.Key("tidegate.replayed")
)

// Messaging is the attribute of all spans of tasks.
var Messaging = semconv.MessagingSystemKey.String("asynq")

// TraceLinks is the header with the producers of all orders of a task, as traceparents joined by commas.
const TraceLinks = "tidegate-links"

var errorTypes = []struct {
	is   error
	kind attribute.KeyValue
}{
	{orders.ErrPoison, semconv.ErrorTypeKey.String("poison")},
	{orders.ErrRecovering, semconv.ErrorTypeKey.String("recovering")},
	{orders.ErrUnavailable, semconv.ErrorTypeKey.String("unavailable")},
	{context.Canceled, semconv.ErrorTypeKey.String("canceled")},
}

// EndSpan ends a span, with the kind of an error.
func EndSpan(span trace.Span, err error) {
	Fail(span, err)
	span.End()
}

// Fail records the kind of an error. It omits the text, which may contain personal data.
func Fail(span trace.Span, err error) {
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
