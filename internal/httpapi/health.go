package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

// readyWithin is how long a dependency may take to answer.
const readyWithin = time.Second

type healthOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Status  string `json:"status" enum:"ok"`
		Version string `json:"version"`

		Degraded []string `json:"degraded,omitempty" doc:"readyz: parts that do without what they need. admission: the store of the counts does not answer. memory: a shard of the embedded server's counts is not cleaned in time. demo_secrets: anybody can read some of the secrets in Tidegate's repository"`
	} `nameHint:"Health"`
}

func (a *API) healthy() *healthOutput {
	out := &healthOutput{CacheControl: "no-store"}
	out.Body.Status, out.Body.Version = "ok", a.version
	return out
}

// livez checks no dependency: a process that waits for its database must not be restarted.
func (a *API) livez(context.Context, *struct{}) (*healthOutput, error) { return a.healthy(), nil }

func (a *API) readyz(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	if a.draining.Load() {
		return nil, problem.New(problem.Draining)
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := a.ready(ctx); err != nil {
		p := problem.New(problem.StoreUnavailable)
		p.Detail = strings.Join(failing(err), ", ")
		return nil, p
	}
	out := a.healthy()
	if a.gate != nil {
		s := a.gate.Stats()
		if s.Degraded {
			out.Body.Degraded = append(out.Body.Degraded, "admission") // other processes use the same store: readyz must not fail for it
		}
		if s.Uncleaned() {
			out.Body.Degraded = append(out.Body.Degraded, "memory")
		}
	}
	if len(a.demoSecrets()) > 0 {
		out.Body.Degraded = append(out.Body.Degraded, "demo_secrets")
	}
	return out, nil
}

// demoSecrets names the settings whose secrets this repository publishes.
func (a *API) demoSecrets() []string {
	if a.tokens != nil && a.tokens.Published() {
		return append(slices.Clone(a.demo), "TOKENS_FILE")
	}
	return a.demo
}

// failing names the dependencies that are not ready. It omits the rest of the error, which may name hosts.
func failing(err error) (parts []string) {
	for line := range strings.Lines(err.Error()) {
		if part, _, _ := strings.Cut(line, ":"); part == "redis" || part == "database" {
			parts = append(parts, part+" does not answer")
		}
	}
	if parts == nil {
		parts = []string{"the sales are not loaded yet"}
	}
	return parts
}

// Probes serves livez, readyz and metrics, and nothing else, for a process without an API. It has no tokens: every client that
// reaches the listener can read them. demoSecrets are those of Config. The returned drain makes readyz answer 503.
func Probes(ready func(context.Context) error, version string, demoSecrets []string, metrics http.Handler, log *slog.Logger) (handler http.Handler, drain func()) {
	a := &API{ready: ready, version: version, demo: demoSecrets, log: slog.New(LogHandler(log.Handler()))}
	a.errors = request.ErrorWriter{Log: a.log}
	e := a.echo(a.track("worker"), rejectMalformed)
	docs := a.huma(e, "Tidegate", nil)
	huma.Register(docs, livezRoute, a.livez)
	huma.Register(docs, readyzRoute, a.readyz)
	e.GET("/metrics", echo.WrapHandler(metrics))
	return headAsGet(e), a.Drain
}
