package health

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/route"
	"github.com/tidegate/tidegate/orders"
)

// readyWithin is how long a dependency may take to answer.
const readyWithin = time.Second

// Handlers tell whether the process can serve. They are safe for concurrent use once their fields are set.
type Handlers struct {
	Version    string
	Conditions func(context.Context) []orders.Condition
	Draining   func() bool
	Stats      func() admission.Stats // of the rules; nil: this process decides nothing
	Tokens     *auth.Tokens           // nil: there are none
	Demo       []string               // the other settings whose secrets this repository publishes
	Outdated   func() []string        // settings whose file or URL could not be read again; nil: none
	Opening    func() bool            // the public listener is not open yet; nil: there is none, or it is
}

var tag = []string{"Health"}

// Routes are the probes.
func (h *Handlers) Routes() []route.Route {
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{OperationID: "livez", Method: http.MethodGet, Path: "/livez", Summary: "Whether the process runs", Tags: tag},
			Public:    route.Open, Roles: auth.ForEverybody,
		}, h.Livez),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "readyz", Method: http.MethodGet, Path: "/readyz", Summary: "Whether the process can serve", Tags: tag, Errors: []int{503},
			},
			Public: route.Open, Roles: auth.ForEverybody,
		}, h.Readyz),
	}
}

// Metrics is the handler of metrics.
type Metrics struct{ http.Handler }

// Routes is the route of metrics.
func (h Metrics) Routes() []route.Route {
	return []route.Route{route.Plain(route.Route{
		Operation: huma.Operation{
			OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Summary: "Metrics for Prometheus", Tags: tag,
			Responses: route.Responses(route.Content("text/plain"), 401, 403),
		},
		Roles: auth.ForScrapers,
	}, route.Handler(h))}
}

type healthOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Status  string `json:"status" enum:"ok"`
		Version string `json:"version"`

		Degraded []string `json:"degraded,omitempty" doc:"readyz: what is wrong although the process serves; docs/operations.md lists the causes. admission: the store of the counts does not answer. memory: a shard of the embedded server's counts is not cleaned in time. reload: a file or URL of a setting cannot be read or is invalid, and its previous content stays in force. demo_secrets: anybody can read some of the secrets in Tidegate's repository"`
	} `nameHint:"Health"`
}

func (h *Handlers) healthy() *healthOutput {
	out := &healthOutput{CacheControl: "no-store"}
	out.Body.Status, out.Body.Version = "ok", h.Version
	return out
}

// Livez checks no dependency: a process that waits for its database must not be restarted.
func (h *Handlers) Livez(context.Context, *struct{}) (*healthOutput, error) { return h.healthy(), nil }

// Readyz checks the dependencies.
func (h *Handlers) Readyz(ctx context.Context, _ *struct{}) (*healthOutput, error) {
	if h.Draining() {
		return nil, problem.New(problem.Draining)
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	var failing, degraded []string
	if h.Opening != nil && h.Opening() {
		failing = append(failing, describe(orders.Condition{Cause: orders.CauseLoading, Detail: "the public listener is not open yet"}))
	}
	for _, c := range h.Conditions(ctx) {
		if c.Serves {
			degraded = append(degraded, string(c.Cause))
		} else {
			failing = append(failing, describe(c))
		}
	}
	if failing != nil {
		p := problem.New(problem.StoreUnavailable)
		p.Detail = strings.Join(failing, "; ")
		return nil, p
	}
	out := h.healthy()
	out.Body.Degraded = degraded
	if h.Stats != nil {
		stats := h.Stats()
		if stats.Degraded {
			out.Body.Degraded = append(out.Body.Degraded, "admission") // other processes use the same store: readyz must not fail for it
		}
		if stats.CleanupOverdue() {
			out.Body.Degraded = append(out.Body.Degraded, "memory")
		}
	}
	if len(h.OutdatedSettings()) > 0 {
		out.Body.Degraded = append(out.Body.Degraded, "reload")
	}
	if len(h.DemoSecrets()) > 0 {
		out.Body.Degraded = append(out.Body.Degraded, "demo_secrets")
	}
	return out, nil
}

// OutdatedSettings names the settings whose file or URL could not be read again.
func (h *Handlers) OutdatedSettings() []string {
	if h.Outdated == nil {
		return nil
	}
	return h.Outdated()
}

// DemoSecrets names the settings whose secrets this repository publishes.
func (h *Handlers) DemoSecrets() []string {
	if h.Tokens != nil && h.Tokens.Published() {
		return append(slices.Clone(h.Demo), "TOKENS_FILE")
	}
	return h.Demo
}

// Describe returns the conditions of the orders, a line each, for the live page.
func (h *Handlers) Describe(ctx context.Context) (lines []string) {
	for _, c := range h.Conditions(ctx) {
		lines = append(lines, describe(c))
	}
	return lines
}

// describe leaves out the error, which may name hosts.
func describe(c orders.Condition) string { return string(c.Cause) + ": " + c.Detail }
