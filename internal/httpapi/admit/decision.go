package admit

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/response"
)

// decisionView is a decision in a response.
type decisionView struct {
	_ struct{} `additionalProperties:"true"`

	Admitted     bool             `json:"admitted"`
	Action       rules.Action     `json:"action" enum:"allow,deny,challenge,ban"`
	Reason       admission.Reason `json:"reason" enum:",rate_limited,cost_above_limit,banned,forbidden,captcha_required" doc:"Why it was not admitted; empty: it was"`
	Rule         string           `json:"rule" doc:"The rule that decided; empty: none"`
	Limit        *int             `json:"limit" doc:"Units per window of that rule; null: nothing limits"`
	Remaining    *int             `json:"remaining" doc:"Units left; null: nothing limits"`
	RetryAfterMS int64            `json:"retry_after_ms" doc:"When the same request fits, rounded up; 0: it was admitted, or it never will"`
	ResetAfterMS int64            `json:"reset_after_ms" doc:"When the whole limit is free again, rounded up"`
	Rules        []verdictView    `json:"rules" doc:"Every window of every matching rule; of a request that was refused without the store only those that refused"`
	Version      string           `json:"version" doc:"Of the rules that decided"`
	At           *time.Time       `json:"at" doc:"The store's clock at the decision; null: it was not asked"`
	Degraded     bool             `json:"degraded" doc:"The store does not answer: some rules did not count"`
}

// verdictView is the state of one window of one rule for a request.
type verdictView struct {
	_ struct{} `additionalProperties:"true"`

	Rule         string           `json:"rule"`
	Algorithm    store.Algorithm  `json:"algorithm"`
	Limit        *int             `json:"limit"`
	WindowMS     int64            `json:"window_ms"`
	Admitted     bool             `json:"admitted"`
	Action       rules.Action     `json:"action" enum:"allow,deny,challenge,ban"`
	Reason       admission.Reason `json:"reason,omitempty"`
	Remaining    *int             `json:"remaining"`
	RetryAfterMS int64            `json:"retry_after_ms"`
	ResetAfterMS int64            `json:"reset_after_ms"`
	Shadow       bool             `json:"shadow" doc:"The rule only reports"`
}

func viewDecision(d *admission.Decision) decisionView {
	return decisionView{
		Admitted: d.Admitted, Action: d.Action, Reason: d.Reason, Rule: d.Rule, Limit: unitsOrNull(d.Limit), Remaining: unitsOrNull(d.Remaining),
		RetryAfterMS: response.CeilMS(d.RetryAfter), ResetAfterMS: response.CeilMS(d.ResetAfter), Rules: viewVerdicts(d.Rules),
		Version: d.Version,
		At:      response.InstantOrNull(d.At), Degraded: d.Degraded,
	}
}

func viewVerdicts(verdicts []admission.Verdict) []verdictView {
	views := make([]verdictView, len(verdicts))
	for i := range verdicts {
		v := &verdicts[i]
		views[i] = verdictView{
			Rule: v.Rule, Algorithm: v.Algorithm, Limit: unitsOrNull(v.Limit), WindowMS: response.CeilMS(v.Window), Admitted: v.Admitted,
			Action: v.Action,
			Reason: v.Reason, Remaining: unitsOrNull(v.Remaining), RetryAfterMS: response.CeilMS(v.RetryAfter),
			ResetAfterMS: response.CeilMS(v.ResetAfter),
			Shadow:       v.Shadow,
		}
	}
	return views
}

func unitsOrNull(n int) *int {
	if n == rules.Unlimited {
		return nil
	}
	return &n
}

// An outcome is a decision, or the problem if there is none.
type outcome struct {
	decision *decisionView
	problem  *problem.Problem
}

// MarshalJSON implements json.Marshaler.
func (o outcome) MarshalJSON() ([]byte, error) {
	if o.problem != nil {
		return json.Marshal(struct {
			Problem *problem.Problem `json:"problem"`
		}{o.problem})
	}
	return json.Marshal(o.decision)
}

// Schema implements huma.SchemaProvider.
func (outcome) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		r.Schema(reflect.TypeFor[decisionView](), true, "Decision"),
		{
			Type: huma.TypeObject, Required: []string{"problem"}, Description: "This request could not be decided",
			Properties: map[string]*huma.Schema{"problem": r.Schema(reflect.TypeFor[problem.Problem](), true, "Problem")},
		},
	}}
}
