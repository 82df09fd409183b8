package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/koala"
)

// koalaEndpoint is one of Koala's endpoints.
type koalaEndpoint struct {
	path, summary string
	roles         []auth.Role
	answer        func(a *API, ctx context.Context, params koala.Params) (any, error)

	request bool          // it takes the parameters that rules match
	own     []*huma.Param // the parameters of the endpoint itself
	answers any           // a value of the type of the 200 body
	failed  any           // the 500 body
}

var (
	koalaWrite = koalaParameter("_writeThrough", "yes: count it too, at the same instant, if it is let in", false, "yes", "no")
	koalaErase = koalaParameter("_feedbackType", "How many units: as erase1 or erase2 of each rule says; erase1 if it is missing", false, "erase1", "erase2")
	koalaRule  = koalaParameter("rule_no", "Return number of a rule", true)
	koalaOne   = koalaParameter("rule_no", "Return number of a rule, for no other", false)
	koalaArgs  = koalaParameter("argsJson", `Such as [{"Id":"1","Arg":"act=ask&uid=7"}]`, true)

	koalaAway = koalaError{Number: -1, Text: "system error!"}

	koalaEndpoints = []koalaEndpoint{
		{
			"/rule/browse", "The first rule that the request is too much for; with _writeThrough=yes it is counted at once, if there is none",
			auth.ForServices, (*API).koalaBrowse, true,
			[]*huma.Param{koalaWrite},
			koala.Result{},
			koalaAway,
		},
		{
			"/rule/browse_complete", "All rules that the request is too much for",
			auth.ForServices, (*API).koalaBrowseComplete, true,
			[]*huma.Param{koalaWrite},
			[]koala.Result{},
			koalaAway,
		},
		{"/rule/update", "Count the request in all rules that match it", auth.ForServices, (*API).koalaUpdate, true, nil, koalaError{}, koalaAway},
		{
			"/rule/feedback", "Take back units of leak rules, as many as _feedbackType=erase1 or erase2 of each says",
			auth.ForServices, (*API).koalaFeedback, true,
			[]*huma.Param{koalaErase},
			koalaError{},
			koalaAway,
		},
		{
			"/rule/value", "How much the rule of rule_no has counted for the request",
			auth.ForServices, (*API).koalaValue, true,
			[]*huma.Param{koalaRule},
			koalaValueAnswer{},
			koalaAway,
		},
		{"/multi/browse", "Browse several requests", auth.ForServices, (*API).koalaMulti, false, []*huma.Param{koalaArgs}, []koalaJobResult{}, koalaAway},
		{
			"/dump/counter", "How often each rule let in and refused today, in this process",
			auth.ForOperators, (*API).koalaCounters, false,
			[]*huma.Param{koalaOne},
			koalaToday{},
			nil,
		},
		{"/dump/policy", "The rules in force", auth.ForOperators, (*API).koalaPolicy, false, nil, koala.Dump{}, nil},
		{"/monitor/alive", "Whether Redis answers", auth.ForServices, (*API).koalaAlive, false, nil, koalaLiving{}, koalaLiving{-1, "redis-error!"}},
	}
)

// koalas registers Koala's endpoints without Huma, whose errors have another format.
func (a *API) koalas(described *huma.OpenAPI) {
	for _, e := range koalaEndpoints {
		a.internal.GET(koalaPath+e.path, a.serveKoala(e), needs(e.roles))
		described.AddOperation(e.describe(described.Components.Schemas))
	}
}

func koalaParameter(name, doc string, required bool, values ...any) *huma.Param {
	return &huma.Param{Name: name, In: "query", Required: required, Description: doc, Schema: &huma.Schema{Type: huma.TypeString, Enum: values}}
}

// describe returns the endpoint for the OpenAPI document.
func (e *koalaEndpoint) describe(schemas huma.Registry) *huma.Operation {
	name := "koala" + strings.NewReplacer("/", "-", "_", "-").Replace(e.path)
	content := func(of any) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeOf(of), true, name)}}
	}
	parameters := e.own
	if e.request {
		explode := true
		parameters = append([]*huma.Param{{
			Name: "parameters", In: "query", Style: "form", Explode: &explode, Description: "What rules ask for, such as act=ask&uid=7",
			Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}},
		}}, parameters...)
	}
	responses := refusals(&huma.Response{Description: "OK", Content: content(e.answers)}, http.StatusUnauthorized, http.StatusForbidden)
	responses["400"] = &huma.Response{Description: "A parameter is wrong", Content: content(koalaError{})}
	if e.failed != nil {
		responses["500"] = &huma.Response{Description: "Redis is away", Content: content(e.failed)}
	}
	return &huma.Operation{
		OperationID: name, Method: http.MethodGet, Path: koalaPath + e.path, Summary: e.summary, Tags: koalaTags, Parameters: parameters, Responses: responses,
	}
}

var koalaTags = []string{"Koala"}

// koalaKnows refuses parameters for the service that are not in own: with a typo such as _writeTrough=yes a request would never
// be limited.
func koalaKnows(params koala.Params, own ...*huma.Param) error {
	for name := range params {
		if strings.HasPrefix(name, "_") && !slices.ContainsFunc(own, func(p *huma.Param) bool { return p.Name == name }) {
			return koalaInvalid("there is no parameter " + strconv.Quote(name) + " here")
		}
	}
	return nil
}
