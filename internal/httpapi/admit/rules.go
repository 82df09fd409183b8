package admit

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/goccy/go-yaml"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/route"
)

// Rules are the handlers for the rules. They are safe for concurrent use once their fields are set.
type Rules struct {
	Gate charge.Gate
	// Reloaded is called after the rules file was loaded, with what else it declares. Nil: not called.
	Reloaded func(ctx context.Context)
	// ReloadKoala loads the file with rules in Koala's format. Nil: there is none.
	ReloadKoala func() error
}

// Routes are the routes of the rules.
func (h *Rules) Routes() []route.Route {
	return []route.Route{
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "get-rules", Method: http.MethodGet, Path: "/v1/rules", Summary: "The rules in force", Tags: route.TagOperating,
				Errors: []int{401, 403},
			},
			Roles: auth.ForViewers,
		}, h.Get),
		route.Of(route.Route{
			Operation: huma.Operation{
				OperationID: "reload-rules", Method: http.MethodPost, Path: "/v1/rules/reload",
				Summary: "Put the rules file as it is now into force; after 422 the old rules stay", Tags: route.TagOperating,
				Errors: []int{401, 403, 422},
			},
			Roles: auth.ForOperators,
		}, h.Reload),
	}
}

type rulesOutput struct {
	Body RulesInForce `nameHint:"Rules"`
}

// RulesInForce are the rules in responses. It is an alias, because only schemas of types without a name take nameHint.
type RulesInForce = struct {
	_ struct{} `additionalProperties:"true"`

	Version      string           `json:"version" doc:"Names the content of the file"`
	ReloadFailed bool             `json:"reload_failed" doc:"The file has changed since, and the change is wrong"`
	Rules        []map[string]any `json:"rules" doc:"The rules as the file has them"`
	Source       string           `json:"source" doc:"The whole file; lists may be in files of their own"`
}

// Get returns the rules in force.
func (h *Rules) Get(context.Context, *struct{}) (*rulesOutput, error) {
	return h.view(h.Gate.Rules())
}

// Reload loads the rules file as it is now. An invalid file changes nothing.
func (h *Rules) Reload(ctx context.Context, _ *struct{}) (*rulesOutput, error) {
	rules, err := h.Gate.Reload()
	if err == nil && h.Reloaded != nil {
		h.Reloaded(context.WithoutCancel(ctx))
	}
	var dialect error
	if h.ReloadKoala != nil {
		dialect = h.ReloadKoala()
	}
	p := problem.New(problem.Invalid)
	switch {
	case err == nil && dialect == nil:
		return h.view(rules)
	case dialect == nil:
		p.Detail = "The rules in force stay those of version " + rules.Version() + "."
	case err == nil:
		p.Detail = "The rules in force are those of version " + rules.Version() + ". The rules of Koala stay what they were."
	default:
		p.Detail = "The rules in force stay those of version " + rules.Version() + ", and those of Koala what they were."
	}
	p.Errors = placesOf(errors.Join(err, dialect))
	return nil, p
}

// placesOf lists the errors of a rules file.
func placesOf(err error) (places []problem.Violation) {
	switch e := err.(type) { //nolint:errorlint // this is the walk that errors.As would do, and goes on after the first
	case *rules.Error:
		return []problem.Violation{{Location: "rules", Message: e.Problem, File: e.File, Line: e.Line, Column: e.Column}}
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			places = append(places, placesOf(err)...)
		}
	case interface{ Unwrap() error }:
		places = placesOf(e.Unwrap())
	}
	if places == nil {
		places = []problem.Violation{{Location: "rules", Message: err.Error()}} // such as a missing file
	}
	return places
}

func (h *Rules) view(set *rules.Set) (*rulesOutput, error) {
	var file struct {
		Rules []map[string]any `yaml:"rules"`
	}
	if err := yaml.Unmarshal(set.Source(), &file); err != nil {
		return nil, fmt.Errorf("admit: rules %s: %w", set.Version(), err)
	}
	out := &rulesOutput{}
	out.Body.Version, out.Body.Rules, out.Body.ReloadFailed = set.Version(), file.Rules, h.Gate.Stats().RulesFailed
	out.Body.Source = string(set.Source())
	if file.Rules == nil {
		out.Body.Rules = []map[string]any{}
	}
	return out, nil
}

// Names returns a function that lists the names of the rules in force, in the order of the file. It reads them once per version of
// the rules, and is not safe for concurrent use.
func (h *Rules) Names() func() []string {
	var (
		of    *rules.Set
		names []string
	)
	return func() []string {
		set := h.Gate.Rules()
		if set == of {
			return names
		}
		of, names = set, nil
		view, err := h.view(set)
		if err != nil {
			return nil
		}
		for _, rule := range view.Body.Rules {
			if name, ok := rule["name"].(string); ok {
				names = append(names, name)
			}
		}
		return names
	}
}
