package serve

import (
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// A sent is a span that the collector received.
type sent struct {
	*tracepb.Span
	service string
}

func (s sent) attributes() map[string]string { return texts(s.Attributes) }

func texts(list []*common.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, a := range list {
		if m[a.Key] = a.Value.GetStringValue(); m[a.Key] == "" {
			m[a.Key] = a.Value.String()
		}
	}
	return m
}

// startCollector receives spans over HTTP, like an OpenTelemetry collector.
func startCollector(t testing.TB) (url string, spans func() []sent) {
	t.Helper()
	var (
		mu  sync.Mutex
		all []sent
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var batch collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &batch)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, from := range batch.ResourceSpans {
			for _, scope := range from.ScopeSpans {
				for _, s := range scope.Spans {
					all = append(all, sent{s, texts(from.Resource.Attributes)["service.name"]})
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []sent {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// TestTracesOfAnOrder: an order is one trace through both programs, from the request to the transaction, and contains no names.
func TestTracesOfAnOrder(t *testing.T) {
	t.Parallel()
	url, spans := startCollector(t)
	env := with(with(environment(testenv.Redis(t), databases.Postgres(t)), "OTEL_EXPORTER_OTLP_ENDPOINT", url), "TRUSTED_PROXIES", "127.0.0.1")
	api, worker := startAPI(t, env), startWorker(t, env)
	s := openShop(t, api, 10)
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	var placed struct {
		OrderID string `json:"order_id"`
	}
	user := "ada-secret"
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
		user += "-" // a repeat for the same user might be answered from memory, in a trace without a decision
		return servetest.Once("POST", s.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "X-User-ID", user, "X-Request-ID", "r-1",
			"Idempotency-Key", "key-"+user, "X-Forwarded-For", "203.0.113.77", "Traceparent", "00-"+theirs+"-b7ad6b7169203331-00", "Baggage", "user=baggage-secret")
	}).Into(t, &placed)
	s.confirmed(placed.OrderID, user)
	for _, p := range []*servetest.Program{worker, api} { // at exit they send the remaining spans
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
	}

	byName := make(map[string]sent)
	for _, s := range spans() {
		word, _, _ := strings.Cut(s.Name, " ")
		if s.attributes()["tidegate.order_id"] == placed.OrderID && word != "GET" || word == "commit" {
			byName[word] = s
		}
		for _, secret := range []string{"secret", "203.0.113", "127.0.0.1", testenv.Secret} {
			if strings.Contains(s.String(), secret) {
				t.Errorf("%s is in %s", secret, s)
			}
		}
	}
	request := byName["POST"]
	for _, s := range spans() {
		if s.Name == "decide" && string(s.ParentSpanId) == string(request.SpanId) {
			byName["decide"] = s
		}
	}
	for _, want := range []struct {
		name, parent, service string
		kind                  tracepb.Span_SpanKind
		link                  string
	}{
		{"POST", "", "tidegate-api", tracepb.Span_SPAN_KIND_SERVER, "b7ad6b7169203331"},
		{"decide", "POST", "tidegate-api", tracepb.Span_SPAN_KIND_INTERNAL, ""},
		{"reserve", "POST", "tidegate-api", tracepb.Span_SPAN_KIND_INTERNAL, ""},
		{"enqueue", "reserve", "tidegate-api", tracepb.Span_SPAN_KIND_PRODUCER, ""},
		{"handle", "enqueue", "tidegate-worker", tracepb.Span_SPAN_KIND_CONSUMER, hex.EncodeToString(byName["enqueue"].SpanId)},
		{"commit", "handle", "tidegate-worker", tracepb.Span_SPAN_KIND_INTERNAL, hex.EncodeToString(byName["handle"].SpanId)},
	} {
		s, ok := byName[want.name]
		if !ok {
			t.Fatalf("no %s among %v", want.name, slices.Collect(maps.Keys(byName)))
		}
		var parent, link string
		if want.parent != "" {
			parent = string(byName[want.parent].SpanId)
		}
		if len(s.Links) == 1 {
			link = hex.EncodeToString(s.Links[0].SpanId)
		}
		if string(s.ParentSpanId) != parent || string(s.TraceId) != string(request.TraceId) || s.Kind != want.kind || s.service != want.service ||
			link != want.link || hex.EncodeToString(s.TraceId) == theirs || s.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
			t.Errorf("%s of %s: %v", want.name, s.service, s)
		}
	}
	if got := request.attributes(); got["tidegate.request_id"] != "r-1" || got["http.route"] != "/v1/sales/:sale/orders" || got["tidegate.sale"] != "concert" {
		t.Errorf("%v", got)
	}
}

// TestOrdersWithoutACollector: orders are accepted and committed without the collector, and the log reports the loss once.
func TestOrdersWithoutACollector(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20") // ms, so that there are many attempts
	closed := httptest.NewServer(nil)
	closed.Close()
	env := with(environment(testenv.Redis(t), databases.Postgres(t)), "OTEL_EXPORTER_OTLP_ENDPOINT", closed.URL)
	api, worker := startAPI(t, env), startWorker(t, env)
	s := openShop(t, api, 10)
	for _, user := range []string{"ada", "bob", "eve"} {
		s.confirmed(s.bought(user), user)
	}
	for _, p := range []*servetest.Program{api, worker} {
		p.Logged("traces are lost: the collector does not accept them")
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(p.Output(), "traces are"); n != 1 {
			t.Errorf("%d lines about traces in %s", n, p.Output())
		}
	}
}
