package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/tidegate/tidegate/internal/httpapi/health"
	"github.com/tidegate/tidegate/internal/httpapi/request"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/orders"
)

// Probes serves livez, readyz and metrics, and nothing else, for a process without an API. It has no tokens: every client that
// reaches the listener can read them. demoSecrets and outdated are those of Config. The returned drain makes readyz answer 503.
func Probes(
	conditions func(context.Context) []orders.Condition, version string, demoSecrets []string, outdated func() []string,
	metrics http.Handler, log *slog.Logger,
) (handler http.Handler, drain func()) {
	a := &API{cfg: Config{Version: version}, log: slog.New(LogHandler(log.Handler()))}
	a.errors = request.NewErrorWriter(a.log)
	probes := &health.Handlers{Version: version, Conditions: conditions, Draining: a.draining.Load, Demo: demoSecrets, Outdated: outdated}
	e := a.echo(a.track("worker"), rejectMalformed)
	l := route.Listener{Docs: a.huma(e, "Tidegate", nil), Echo: e, Errors: a.errors}
	l.Add(probes.Routes())
	e.GET("/metrics", route.Handler(metrics))
	return headAsGet(e), a.Drain
}
