package admit

import (
	"context"
	"strings"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/httpapi/request"
)

type explainInput struct {
	User       string   `query:"user" maxLength:"255"`
	IP         string   `query:"ip" maxLength:"255"`
	Device     string   `query:"device" maxLength:"255"`
	Session    string   `query:"session" maxLength:"255"`
	Route      string   `query:"route" maxLength:"1024"`
	Method     string   `query:"method" maxLength:"64"`
	Tier       string   `query:"tier" maxLength:"1024"`
	Cost       int      `query:"cost" minimum:"1" maximum:"1000000" default:"1"`
	Attributes []string `query:"attribute,explode" maxItems:"64" doc:"NAME:VALUE of one that the rules look at; as often as there are"`
}

// StandingView is an admission.RuleState in a response. The API description has a schema of this name.
type StandingView struct {
	_ struct{} `additionalProperties:"true"`

	Rule    string        `json:"rule"`
	Applies bool          `json:"applies" doc:"To a request of this route, method and attributes"`
	Why     string        `json:"why,omitempty" doc:"It does not apply: the condition that fails"`
	Windows []verdictView `json:"windows" doc:"Where the subject stands, also if the rule does not apply"`
}

type explainOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         Explanation
}

// Explanation is an admission.Explanation in a response.
type Explanation struct {
	_ struct{} `additionalProperties:"true"`

	Version string         `json:"version" doc:"Of the rules"`
	Ban     *BanView       `json:"ban,omitempty" doc:"In force"`
	Allowed string         `json:"allowed,omitempty" doc:"The list that keeps the caller from being banned"`
	Rules   []StandingView `json:"rules"`
}

// Explain returns a caller's state in every rule, and charges nothing.
func (h *Decisions) Explain(ctx context.Context, in *explainInput) (*explainOutput, error) {
	req := admission.Request{
		User: in.User, Device: in.Device, Session: in.Session, Method: strings.ToUpper(in.Method), Tier: in.Tier, Cost: in.Cost,
	}
	if in.IP != "" {
		var err error
		if req.IP, err = request.ParseAddress(in.IP, "query.ip"); err != nil {
			return nil, err
		}
	}
	if in.Route != "" {
		var err error
		if req.Route, err = routeAt("query.route", in.Route); err != nil {
			return nil, err
		}
	}
	given := attributes{}
	for _, pair := range in.Attributes {
		name, value, ok := strings.Cut(pair, ":")
		if !ok || len(value) > maxAttributeValue || name == "route" || name == "method" || name == "tier" {
			return nil, problem.InvalidAt("query.attribute", "must be NAME:VALUE; route, method and tier have parameters of their own")
		}
		given[name] = attribute(value)
	}
	if err := given.into(&req, "query.attribute"); err != nil {
		return nil, err
	}
	e, err := h.Gate.Explain(ctx, req)
	if err != nil {
		return nil, err
	}
	out := &explainOutput{CacheControl: "no-store"}
	out.Body.Version, out.Body.Allowed, out.Body.Rules = e.Version, e.Allowed, make([]StandingView, len(e.Rules))
	if e.Ban != nil {
		ban := viewBan(e.Ban)
		out.Body.Ban = &ban
	}
	for i, s := range e.Rules {
		out.Body.Rules[i] = StandingView{Rule: s.Rule, Applies: s.Applies, Why: s.Reason, Windows: viewVerdicts(s.Windows)}
	}
	return out, nil
}
