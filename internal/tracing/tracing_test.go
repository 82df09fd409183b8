package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logged is a log that may be read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func TestNoEndpointNoTraces(t *testing.T) {
	p, err := Start(t.Context(), Options{Sampler: "nonsense"})
	if p != nil || err != nil || p.Tracer() != nil {
		t.Errorf("%v %v", p, err)
	}
	p.Close()
}

func TestSamplers(t *testing.T) {
	wanted := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	for _, tt := range []struct {
		name         string
		share        float64
		root, wanted bool
	}{
		{"", 0, true, true},
		{"always_on", 0, true, true},
		{"always_off", 1, false, false},
		{"traceidratio", 0, false, false},
		{"traceidratio", 1, true, true},
		{"parentbased_always_on", 0, true, true},
		{"parentbased_always_off", 1, false, true},
		{"parentbased_traceidratio", 0, false, true},
		{"parentbased_traceidratio", 1, true, true},
	} {
		p, err := Start(t.Context(), Options{Endpoint: "http://127.0.0.1:1", Sampler: tt.name, Share: tt.share, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		_, root := p.Tracer().Start(t.Context(), "root")
		_, child := p.Tracer().Start(wanted, "child")
		if root.IsRecording() != tt.root || child.IsRecording() != tt.wanted {
			t.Errorf("%s %v: root %v, child of a trace that is wanted %v", tt.name, tt.share, root.IsRecording(), child.IsRecording())
		}
		p.Close()
	}
	for _, name := range Samplers {
		if _, err := sampler(name, 1); err != nil {
			t.Error(err)
		}
	}
	if _, err := Start(t.Context(), Options{Endpoint: "http://127.0.0.1:1", Sampler: "sometimes"}); err == nil {
		t.Error("there is a sampler sometimes")
	}
}

// What came of the last batches, in turn.
type fickle struct {
	*tracetest.InMemoryExporter
	errs []error
}

func (f *fickle) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return errors.Join(err, f.InMemoryExporter.ExportSpans(ctx, spans))
}

// A collector that is away is one warning, however long it is, and however often it comes and goes.
func TestTheLogSaysOnceThatTracesAreLost(t *testing.T) {
	away := errors.New("connection refused " + strings.Repeat("x", 1<<20))
	var log logged
	f := &fickle{tracetest.NewInMemoryExporter(), []error{nil, away, away, away, nil, nil, away, away, nil}}
	p, err := start(t.Context(), Options{Program: "test", Logger: log.logger()}, sdktrace.AlwaysSample(), f)
	if err != nil {
		t.Fatal(err)
	}
	for left := len(f.errs); left > 0; left-- {
		_, span := p.Tracer().Start(t.Context(), "span")
		span.End()
		if err := p.spans.ForceFlush(t.Context()); err != nil || len(f.errs) != left-1 {
			t.Fatalf("%v, %d exports left", err, len(f.errs))
		}
	}
	p.Close()
	got := log.String()
	if strings.Count(got, "\n") != 2 || strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "connection refused") || !strings.Contains(got, "spans_lost=3") || len(got) > 1000 {
		t.Errorf("%d bytes: %.1000s", len(got), got)
	}
}

// However long it is away.
func TestTheLogSaysNoMoreAfterHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logged
		hours := 3 * time.Hour
		f := &fickle{tracetest.NewInMemoryExporter(), slices.Repeat([]error{errors.New("away")}, int(hours/time.Second))}
		e := &exporter{SpanExporter: f, log: log.logger()}
		for len(f.errs) > 0 {
			_ = e.ExportSpans(t.Context(), nil) // never fails
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}

// A collector that takes a connection and never answers keeps nobody: no span, and not the end of the program.
func TestACollectorThatHangsKeepsNobody(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) == 1 {
			close(asked)
		}
		<-release
	}))
	defer server.Close()
	defer close(release)
	var log logged
	p, err := Start(t.Context(), Options{Endpoint: server.URL, Program: "test", Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	for range 20_000 { // many more than are kept
		_, span := p.Tracer().Start(t.Context(), "span")
		span.End()
	}
	<-asked
	p.Close()
	if !strings.Contains(log.String(), "the last traces were not sent") {
		t.Error(log.String())
	}
}

func TestTheCollectorHearsWhoSends(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=environment")
	for _, tt := range []struct{ service, want string }{{"", "environment"}, {"shop", "shop"}} {
		kept := tracetest.NewInMemoryExporter()
		p, err := start(t.Context(), Options{Program: "tidegate-api", Version: "v1", Service: tt.service}, sdktrace.AlwaysSample(), keptAfterShutdown{kept})
		if err != nil {
			t.Fatal(err)
		}
		_, span := p.Tracer().Start(t.Context(), "span")
		span.End()
		p.Close()
		spans := kept.GetSpans()
		if len(spans) != 1 {
			t.Fatalf("%d spans", len(spans))
		}
		got := make(map[string]string)
		for _, a := range spans[0].Resource.Attributes() {
			got[string(a.Key)] = a.Value.String()
		}
		if got["service.name"] != tt.want || got["service.version"] != "v1" || got["deployment.environment.name"] != "test" {
			t.Errorf("%v", got)
		}
	}
}

// The exporter of tracetest forgets its spans at the end.
type keptAfterShutdown struct{ *tracetest.InMemoryExporter }

func (keptAfterShutdown) Shutdown(context.Context) error { return nil }
