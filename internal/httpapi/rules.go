package httpapi

import (
	"context"
	"fmt"

	"github.com/goccy/go-yaml"
)

type rulesOutput struct {
	Body struct {
		_ struct{} `additionalProperties:"true"`

		Version string           `json:"version" doc:"Names the content of the file"`
		Rules   []map[string]any `json:"rules" nullable:"false" doc:"The rules as the file has them"`
	} `nameHint:"Rules"`
}

func (a *API) rules(context.Context, *struct{}) (*rulesOutput, error) {
	rules := a.gate.Rules()
	var file struct {
		Rules []map[string]any `yaml:"rules"`
	}
	if err := yaml.Unmarshal(rules.Source(), &file); err != nil {
		return nil, fmt.Errorf("httpapi: rules %s: %w", rules.Version(), err)
	}
	out := &rulesOutput{}
	out.Body.Version, out.Body.Rules = rules.Version(), file.Rules
	if file.Rules == nil {
		out.Body.Rules = []map[string]any{}
	}
	return out, nil
}
