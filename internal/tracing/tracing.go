// Package tracing takes spans to an OpenTelemetry collector, over OTLP/HTTP. Nothing ever waits for the collector: spans that it does
// not take are lost and logged.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

const (
	alwaysOn    = "always_on"
	alwaysOff   = "always_off"
	ratio       = "traceidratio"
	parentBased = "parentbased_" // in front of one of the others: it decides only where no caller has
)

// DefaultSampler makes all traces but those that a caller does not want.
const DefaultSampler = parentBased + alwaysOn

// Samplers are the standard names.
var Samplers = []string{alwaysOn, alwaysOff, ratio, DefaultSampler, parentBased + alwaysOff, parentBased + ratio}

const (
	flushMost  = 2 * time.Second // at the end, where orchestrators soon kill
	exportMost = 5 * time.Second // for one batch; then it is given up

	// linksMost is as many as the orders of a transaction.
	linksMost = 500
)

// Options of a Provider.
type Options struct {
	// Endpoint is the collector's base URL, such as http://localhost:4318. Empty: no traces are made.
	Endpoint string
	// Sampler is one of Samplers. Default: DefaultSampler.
	Sampler string
	// Share of the traces that the sampler traceidratio makes, from 0 to 1.
	Share float64
	// Service is the name that the traces bear, and Program the one if it is empty and the environment gives none.
	Service, Program string
	// Version of the program.
	Version string
	// Logger hears when the collector is away. Default: slog.Default().
	Logger *slog.Logger
}

// Provider makes spans and sends them. A nil one does not.
type Provider struct {
	spans    *sdktrace.TracerProvider
	exporter *exporter
	log      *slog.Logger
}

// Start returns a provider that sends spans until it is closed, or nil without an endpoint. What the standard variables of the
// environment say of headers, certificates, compression, batches and the resource holds as well.
func Start(ctx context.Context, opts Options) (*Provider, error) {
	if opts.Endpoint == "" {
		return nil, nil
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	sampler, err := sampler(cmp.Or(opts.Sampler, DefaultSampler), opts.Share)
	if err != nil {
		return nil, err
	}
	otlp, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(strings.TrimSuffix(opts.Endpoint, "/")+"/v1/traces"),
		otlptracehttp.WithTimeout(exportMost),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: exportMost / 10, MaxInterval: exportMost / 2, MaxElapsedTime: exportMost,
		}))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return start(ctx, opts, sampler, otlp)
}

func start(ctx context.Context, opts Options, sampler sdktrace.Sampler, otlp sdktrace.SpanExporter) (*Provider, error) {
	described := []resource.Option{
		resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName(opts.Program), semconv.ServiceVersion(opts.Version)),
		resource.WithFromEnv(),
	}
	if opts.Service != "" {
		described = append(described, resource.WithAttributes(semconv.ServiceName(opts.Service)))
	}
	of, err := resource.New(ctx, described...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	limits := sdktrace.NewSpanLimits()
	limits.LinkCountLimit = max(limits.LinkCountLimit, linksMost)
	e := &exporter{SpanExporter: otlp, log: opts.Logger}
	return &Provider{
		spans: sdktrace.NewTracerProvider(
			sdktrace.WithBatcher(e), sdktrace.WithSampler(sampler), sdktrace.WithResource(of), sdktrace.WithRawSpanLimits(limits)),
		exporter: e, log: opts.Logger,
	}, nil
}

func sampler(name string, share float64) (sdktrace.Sampler, error) {
	root, asParent := strings.CutPrefix(name, parentBased)
	var s sdktrace.Sampler
	switch root {
	case alwaysOn:
		s = sdktrace.AlwaysSample()
	case alwaysOff:
		s = sdktrace.NeverSample()
	case ratio:
		s = sdktrace.TraceIDRatioBased(share)
	default:
		return nil, fmt.Errorf("tracing: unknown sampler %q", name)
	}
	if asParent {
		s = sdktrace.ParentBased(s)
	}
	return s, nil
}

// Tracer makes the spans of this program. Nil: none are to be made.
func (p *Provider) Tracer() trace.Tracer {
	if p == nil {
		return nil
	}
	return p.spans.Tracer("github.com/tidegate/tidegate")
}

// Close sends what is left, for two seconds at most. Call it when nothing makes spans any more.
func (p *Provider) Close() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushMost)
	defer cancel()
	if err := p.spans.Shutdown(ctx); err != nil {
		p.log.Warn("the last traces were not sent", "error", err)
		_ = p.exporter.SpanExporter.Shutdown(ctx) // ends what is under way
	}
}
