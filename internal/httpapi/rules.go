package httpapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

type rulesOutput struct {
	Body struct {
		_ struct{} `additionalProperties:"true"`

		Version      string           `json:"version" doc:"Names the content of the file"`
		ReloadFailed bool             `json:"reload_failed" doc:"The file has changed since, and the change is wrong"`
		Rules        []map[string]any `json:"rules" nullable:"false" doc:"The rules as the file has them"`
		Source       string           `json:"source" doc:"The whole file; lists may be in files of their own"`
	} `nameHint:"Rules"`
}

func (a *API) rules(context.Context, *struct{}) (*rulesOutput, error) {
	return a.viewRules(a.gate.Rules())
}

// reloadRules loads the rules file as it is now. An invalid file changes nothing.
func (a *API) reloadRules(ctx context.Context, _ *struct{}) (*rulesOutput, error) {
	rules, err := a.gate.Reload()
	if err == nil && a.semaphores != nil {
		_ = a.semaphores.Declare(context.WithoutCancel(ctx)) // it retries in the background, and logs failures
	}
	var dialect error
	if a.koala != nil {
		dialect = a.koala.Reload()
	}
	p := problem.New(problem.Invalid)
	switch {
	case err == nil && dialect == nil:
		return a.viewRules(rules)
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
	case *admission.RulesError:
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

func (a *API) viewRules(rules *admission.Rules) (*rulesOutput, error) {
	var file struct {
		Rules []map[string]any `yaml:"rules"`
	}
	if err := yaml.Unmarshal(rules.Source(), &file); err != nil {
		return nil, fmt.Errorf("httpapi: rules %s: %w", rules.Version(), err)
	}
	out := &rulesOutput{}
	out.Body.Version, out.Body.Rules, out.Body.ReloadFailed = rules.Version(), file.Rules, a.gate.Stats().RulesFailed
	out.Body.Source = string(rules.Source())
	if file.Rules == nil {
		out.Body.Rules = []map[string]any{}
	}
	return out, nil
}
