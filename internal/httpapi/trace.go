package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	kv "go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/httpapi/live"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/orders"
)

// untraced are routes that are polled constantly, or stay open with a page; traces of them have no value.
var untraced = map[string]bool{
	"/livez": true, "/readyz": true, "/metrics": true, live.EventsPath: true,
	route.Pattern(live.AssetsPath): true,
}

// maxTraceState is the maximum size of a tracestate that is kept, the minimum that W3C Trace Context requires.
const maxTraceState = 512

// trace begins a request's span, and stores it in the request's context. On the internal listener it continues the service's
// trace. On the public one clients must not decide which traces are made, so each request begins a new trace with a link to the
// client's.
func (a *API) trace(listener string, c echo.Context) trace.Span {
	if a.cfg.Tracer == nil || untraced[c.Path()] {
		return request.NoSpan
	}
	r := c.Request()
	ctx, options, method := r.Context(), serverSpan, request.KnownMethod(r.Method)
	if caller := callersSpan(r.Header); caller.IsValid() && listener == "internal" {
		ctx = trace.ContextWithRemoteSpanContext(ctx, caller)
	} else if caller.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caller.WithTraceState(trace.TraceState{})}))
	}
	ctx, span := a.cfg.Tracer.Start(ctx, strings.TrimSpace(method+" "+c.Path()), options...)
	if span.IsRecording() { // most requests of a rush are not recorded
		span.SetAttributes(semconv.HTTPRequestMethodKey.String(method), kv.String("tidegate.listener", listener))
		if c.Path() != "" { // a route matches
			span.SetAttributes(semconv.HTTPRoute(c.Path()))
		}
	}
	c.SetRequest(r.WithContext(ctx))
	return span
}

var serverSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// callersSpan returns the span that a request names as its parent. Baggage is ignored.
func callersSpan(header http.Header) trace.SpanContext {
	parent := header["Traceparent"]
	if len(parent) != 1 {
		return trace.SpanContext{}
	}
	state := strings.Join(header["Tracestate"], ",")
	if len(state) > maxTraceState {
		state = ""
	}
	carrier := propagation.MapCarrier{"traceparent": parent[0], "tracestate": state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// endTrace records the result of a request. A span contains no user, credentials or address.
func endTrace(span trace.Span, r *request.Info, status int) {
	if span.IsRecording() {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status), kv.String("tidegate.request_id", r.ID))
		if status >= http.StatusInternalServerError {
			span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(status)))
			span.SetStatus(codes.Error, "")
		}
		if sale := r.KnownSale(); sale != "" {
			span.SetAttributes(kv.String("tidegate.sale", sale))
		}
		if r.Item != "" {
			span.SetAttributes(kv.String("tidegate.item", r.Item))
		}
		if r.Order != (orders.ID{}) {
			span.SetAttributes(kv.String("tidegate.order_id", r.Order.String()))
		}
		if r.Reason != "" {
			span.SetAttributes(kv.String("tidegate.reason", r.Reason))
		}
	}
	span.End()
}
