package httpapi

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/orders"
)

// traced enables tracing for an API, and returns the exporter of its spans.
func traced() (func(*Config), *tracetest.InMemoryExporter) {
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())))
	return func(c *Config) { c.Tracer = provider.Tracer("test") }, kept
}

func attributesOf(s tracetest.SpanStub) map[string]string {
	m := make(map[string]string)
	for _, a := range s.Attributes {
		m[string(a.Key)] = a.Value.String()
	}
	return m
}

// spanOf returns the only span with a name.
func spanOf(t *testing.T, kept *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	found := slices.DeleteFunc(kept.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
	if len(found) != 1 {
		t.Fatalf("%d spans %s of %d", len(found), name, len(kept.GetSpans()))
	}
	return found[0]
}

const (
	placeSpan = "POST /v1/sales/:sale/orders"
	theirID   = "0af7651916cd43dd8448eb211c80319c"
	theirs    = "00-" + theirID + "-b7ad6b7169203331-01"
	unwanted  = "00-" + theirID + "-b7ad6b7169203331-00"
)

func TestARequestIsASpan(t *testing.T) {
	option, kept := traced()
	b := setup(t, option)
	b.gate.decision.Rule = "orders"
	w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`, "X-Request-Id", "r-1", "Idempotency-Key", "a-secret-key", "X-Forwarded-For", "203.0.113.9",
		"Authorization", "Bearer a-secret-token")
	if w.Code != 202 {
		t.Fatal(w.Body)
	}
	request, decision := spanOf(t, kept, placeSpan), spanOf(t, kept, "decide")
	if request.Parent.IsValid() || request.SpanKind != trace.SpanKindServer || request.Status.Code != codes.Unset ||
		decision.Parent.SpanID() != request.SpanContext.SpanID() || decision.SpanContext.TraceID() != request.SpanContext.TraceID() {
		t.Errorf("%+v %+v", request, decision)
	}
	if got, want := attributesOf(request), map[string]string{
		"http.request.method": "POST", "http.route": "/v1/sales/:sale/orders", "http.response.status_code": "202",
		"tidegate.listener": "public", "tidegate.request_id": "r-1", "tidegate.sale": "flash", "tidegate.item": "shoe", "tidegate.order_id": accepted.ID.String(),
	}; !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if got, want := attributesOf(decision), map[string]string{"tidegate.admitted": "true", "tidegate.rule": "orders", "tidegate.reason": ""}; !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	for _, s := range kept.GetSpans() {
		for _, secret := range []string{"ada", "secret", "203.0.113", "127.0.0.1"} {
			if all := fmt.Sprint(s.Name, s.Attributes, s.Events, s.Links, s.Status); strings.Contains(all, secret) {
				t.Errorf("%s is in %s", secret, all)
			}
		}
	}
}

// TestSpansOfOtherAnswers: spans of unknown routes contain nothing that the caller sent, and routes that are polled have no
// spans.
func TestSpansOfOtherAnswers(t *testing.T) {
	option, kept := traced()
	b := setup(t, option)
	for _, path := range []string{"/livez", "/readyz"} {
		call(b.Public(), "GET", path, "")
	}
	call(b.Internal(), "GET", "/metrics", "")
	if n := len(kept.GetSpans()); n > 0 {
		t.Errorf("%d spans", n)
	}
	call(b.Public(), "BREW", "/my-secret", "")
	s := spanOf(t, kept, "_OTHER")
	if got := attributesOf(s); got["http.response.status_code"] != "404" || got["tidegate.reason"] != "unknown_route" || got["http.route"] != "" || s.Status.Code != codes.Unset || strings.Contains(fmt.Sprint(s), "my-secret") {
		t.Errorf("%+v", s)
	}
	kept.Reset()
	b.orders.panics = true
	call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
	s = spanOf(t, kept, placeSpan)
	if got := attributesOf(s); got["http.response.status_code"] != "500" || got["error.type"] != "500" || s.Status.Code != codes.Error || strings.Contains(fmt.Sprint(s), "hunter2") {
		t.Errorf("%+v", s)
	}
	kept.Reset()
	b.orders.panics = false
	b.gate.decision = admission.Decision{Reason: admission.RateLimited, Rule: "orders"}
	call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
	if got := attributesOf(spanOf(t, kept, "decide")); got["tidegate.admitted"] != "false" || got["tidegate.rule"] != "orders" || got["tidegate.reason"] != "rate_limited" {
		t.Errorf("%v", got)
	}
	if got := attributesOf(spanOf(t, kept, placeSpan)); got["tidegate.reason"] != "rate_limited" {
		t.Errorf("%v", got)
	}
}

// TestCallersTraces: a service's trace is continued; a public client's is not, and does not decide sampling.
func TestCallersTraces(t *testing.T) {
	option, kept := traced()
	b := setup(t, option)
	for _, tt := range []struct {
		public bool
		header string
		made   bool
	}{{false, theirs, true}, {false, unwanted, false}, {true, theirs, true}, {true, unwanted, true}} {
		kept.Reset()
		h := b.Internal()
		if tt.public {
			h = b.Public()
		}
		call(h, "POST", placePath, `{"item":"shoe"}`, "Traceparent", tt.header, "Tracestate", "vendor=note", "Baggage", "user=ada")
		if !tt.made {
			if n := len(kept.GetSpans()); n > 0 {
				t.Errorf("%s public=%v: %d spans", tt.header, tt.public, n)
			}
			continue
		}
		s := spanOf(t, kept, placeSpan)
		goesOn := s.SpanContext.TraceID().String() == theirID && s.Parent.SpanID().String() == "b7ad6b7169203331" && s.SpanContext.TraceState().String() == "vendor=note"
		linked := len(s.Links) == 1 && s.Links[0].SpanContext.TraceID().String() == theirID && s.Links[0].SpanContext.TraceState().Len() == 0
		if goesOn == tt.public || linked != tt.public || tt.public && (s.Parent.IsValid() || s.SpanContext.TraceID().String() == theirID) {
			t.Errorf("%s public=%v: %+v", tt.header, tt.public, s)
		}
	}
}

func TestHostileTraces(t *testing.T) {
	option, kept := traced()
	b := setup(t, option)
	for _, header := range []http.Header{
		{"Traceparent": {"garbage"}},
		{"Traceparent": {strings.Repeat("0", 30<<10)}},
		{"Traceparent": {theirs + "-more"}},
		{"Traceparent": {strings.ToUpper(theirs)}},
		{"Traceparent": {"00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-01"}},
		{"Traceparent": {theirs, theirs}},
		{"Traceparent": {"\x00\xff"}, "Tracestate": {"\x00\xff"}, "Baggage": {"\x00\xff"}},
		{"Tracestate": {"vendor=note"}, "Baggage": {strings.Repeat("a=b,", 10<<10)}},
	} {
		for _, h := range []http.Handler{b.Public(), b.Internal()} {
			kept.Reset()
			if w := withHeader(h, header); w.Code != 202 {
				t.Fatalf("%.80q: %d", header, w.Code)
			}
			if s := spanOf(t, kept, placeSpan); s.Parent.IsValid() || len(s.Links) > 0 || s.SpanContext.TraceState().Len() > 0 || len(fmt.Sprint(s)) > 4000 {
				t.Errorf("%.80q: %.4000v", header, s)
			}
		}
	}
	kept.Reset()
	withHeader(b.Internal(), http.Header{"Traceparent": {theirs}, "Tracestate": {"a=" + strings.Repeat("x", 250), "b=" + strings.Repeat("x", 250), "c=" + strings.Repeat("x", 250)}})
	if s := spanOf(t, kept, placeSpan); s.SpanContext.TraceID().String() != theirID || s.SpanContext.TraceState().Len() > 0 {
		t.Errorf("%+v", s)
	}
}

// TestNoTracer: without a tracer a caller's trace has no effect.
func TestNoTracer(t *testing.T) {
	b := setup(t)
	if w := withHeader(b.Internal(), http.Header{"Traceparent": {theirs}}); w.Code != 202 {
		t.Error(w.Code)
	}
	if strings.Contains(b.logged.String(), "trace_id") {
		t.Error(b.logged)
	}
}

func TestWhateverLogsWithinARequestNamesIt(t *testing.T) {
	option, kept := traced()
	b := setup(t, option)
	b.gate.err = fmt.Errorf("admission: it thundered")
	call(b.Public(), "POST", placePath, `{"item":"shoe"}`, "X-Request-Id", "r-1")
	s := spanOf(t, kept, placeSpan)
	for _, want := range []string{
		"request_id=r-1", "trace_id=" + s.SpanContext.TraceID().String(), "span_id=" + s.SpanContext.SpanID().String(),
		"route=/v1/sales/:sale/orders", "sale=flash", "item=shoe", "thundered",
	} {
		if got := b.logged.String(); strings.Count(got, want) != 1 {
			t.Errorf("no %s, or twice, in %s", want, got)
		}
	}
	b.logged.Reset()
	b.gate.err, b.orders.err = nil, fmt.Errorf("it rained")
	call(b.Public(), "GET", "/v1/orders/"+confirmed.ID.String(), "")
	if want := "order_id=" + b.orders.Shown(confirmed.ID, "").String(); !strings.Contains(b.logged.String(), want) {
		t.Errorf("no %s in %s", want, b.logged)
	}

	inner := LogHandler(slog.NewTextHandler(b.logged, nil))
	if LogHandler(inner) != inner {
		t.Error("a log says everything twice")
	}
	if _, ok := slog.New(inner).With("a", 1).WithGroup("g").Handler().(logHandler); !ok {
		t.Error("a log of a part says nothing of requests")
	}
}

// TestRequestLog: each request logs one line at level debug, and none at info.
func TestRequestLog(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		var log strings.Builder
		b := setup(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})) })
		b.orders.screen = &orders.Outcome{Reason: orders.ReasonSoldOut}
		call(b.Public(), "POST", placePath, `{"item":"shoe"}`, "X-Request-Id", "r-1", "Idempotency-Key", "a-secret-key")
		call(b.Internal(), "PUT", "/v1/bans/user/ada", `{"for_ms":1000,"reason":"a-secret-reason"}`)
		call(b.Public(), "GET", "/a-secret-path?q=a-secret-query", "")
		got := log.String()
		if level == slog.LevelInfo {
			if got != "" {
				t.Error(got)
			}
			continue
		}
		if strings.Count(got, "msg=request ") != 3 || strings.Contains(got, "ada") || strings.Contains(got, "secret") || strings.Contains(got, "127.0.0.1") {
			t.Error(got)
		}
		line, _, _ := strings.Cut(got, "\n")
		for _, want := range []string{"level=DEBUG", "method=POST", "route=/v1/sales/:sale/orders", "sale=flash", "item=shoe", "status=409", "reason=sold_out", "took_ms=", "request_id=r-1"} {
			if !strings.Contains(line, want) {
				t.Errorf("no %s in %s", want, line)
			}
		}
	}
}

// withHeader places an order with header fields that may be repeated.
func withHeader(h http.Handler, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", placePath, strings.NewReader(`{"item":"shoe"}`))
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "localhost:8080"
	r.Header = header.Clone()
	r.Header.Set("X-User-ID", "ada")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
