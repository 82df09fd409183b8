package health

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

// readyWithin is how long a dependency may take to answer.
const readyWithin = time.Second

// Handlers tell whether the process can serve. They are safe for concurrent use once their fields are set.
type Handlers struct {
	Version  string
	Ready    func(context.Context) error
	Draining func() bool
	Stats    func() admission.Stats // of the rules; nil: this process decides nothing
	Tokens   *auth.Tokens           // nil: there are none
	Demo     []string               // the other settings whose secrets this repository publishes
}

type healthOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		_ struct{} `additionalProperties:"true"`

		Status  string `json:"status" enum:"ok"`
		Version string `json:"version"`

		Degraded []string `json:"degraded,omitempty" doc:"readyz: parts that do without what they need. admission: the store of the counts does not answer. memory: a shard of the embedded server's counts is not cleaned in time. demo_secrets: anybody can read some of the secrets in Tidegate's repository"`
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
	if failing := h.Failing(ctx); failing != nil {
		p := problem.New(problem.StoreUnavailable)
		p.Detail = strings.Join(failing, ", ")
		return nil, p
	}
	out := h.healthy()
	if h.Stats != nil {
		stats := h.Stats()
		if stats.Degraded {
			out.Body.Degraded = append(out.Body.Degraded, "admission") // other processes use the same store: readyz must not fail for it
		}
		if stats.CleanupOverdue() {
			out.Body.Degraded = append(out.Body.Degraded, "memory")
		}
	}
	if len(h.DemoSecrets()) > 0 {
		out.Body.Degraded = append(out.Body.Degraded, "demo_secrets")
	}
	return out, nil
}

// DemoSecrets names the settings whose secrets this repository publishes.
func (h *Handlers) DemoSecrets() []string {
	if h.Tokens != nil && h.Tokens.Published() {
		return append(slices.Clone(h.Demo), "TOKENS_FILE")
	}
	return h.Demo
}

// Failing names the dependencies that are not ready; nil: all are. It omits the rest of the error, which may name hosts.
func (h *Handlers) Failing(ctx context.Context) (parts []string) {
	err := h.Ready(ctx)
	if err == nil {
		return nil
	}
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
