package koalahttp

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/dialects/koala"
	"github.com/tidegate/tidegate/internal/httpapi/apidocs"
	"github.com/tidegate/tidegate/internal/httpapi/route"
)

// endpoint is one of Koala's endpoints.
type endpoint struct {
	path, summary string
	roles         []auth.Role
	answer        func(h *Handlers, ctx context.Context, params koala.Params) (any, error)

	request bool          // it takes the parameters that rules match
	own     []*huma.Param // the parameters of the endpoint itself
	answers any           // a value of the type of the 200 body
	failed  any           // the 500 body
}

var (
	koalaWrite = parameter("_writeThrough", "yes: count it too, at the same instant, if it is let in", false, "yes", "no")
	koalaErase = parameter("_feedbackType", "How many units: erase1 or erase2 of each rule; default erase1", false, "erase1", "erase2")
	koalaRule  = parameter("rule_no", "Return number of a rule", true)
	koalaOne   = parameter("rule_no", "Return number of a rule, for no other", false)
	koalaArgs  = parameter("argsJson", `Such as [{"Id":"1","Arg":"act=ask&uid=7"}]`, true)

	unavailable = koalaError{Number: -1, Text: "system error!"}

	// endpoints are all of them.
	endpoints = []endpoint{
		{
			"/rule/browse", "The first rule that the request is too much for; with _writeThrough=yes it is counted at once, if there is none",
			auth.ForServices, (*Handlers).koalaBrowse, true,
			[]*huma.Param{koalaWrite},
			koala.Result{},
			unavailable,
		},
		{
			"/rule/browse_complete", "All rules that the request is too much for",
			auth.ForServices, (*Handlers).koalaBrowseComplete, true,
			[]*huma.Param{koalaWrite},
			[]koala.Result{},
			unavailable,
		},
		{
			"/rule/update", "Count the request in all rules that match it", auth.ForServices, (*Handlers).koalaUpdate, true, nil,
			koalaError{},
			unavailable,
		},
		{
			"/rule/feedback", "Take back units of leak rules, the number in erase1 or erase2 of each, by _feedbackType",
			auth.ForServices, (*Handlers).koalaFeedback, true,
			[]*huma.Param{koalaErase},
			koalaError{},
			unavailable,
		},
		{
			"/rule/value", "How much the rule of rule_no has counted for the request",
			auth.ForServices, (*Handlers).koalaValue, true,
			[]*huma.Param{koalaRule},
			koalaValueAnswer{},
			unavailable,
		},
		{
			"/multi/browse", "Browse several requests", auth.ForServices, (*Handlers).koalaMulti, false,
			[]*huma.Param{koalaArgs},
			[]koalaJobResult{},
			unavailable,
		},
		{
			"/dump/counter", "How often each rule let in and refused today, in this process",
			auth.ForOperators, (*Handlers).koalaCounters, false,
			[]*huma.Param{koalaOne},
			koalaToday{},
			nil,
		},
		{"/dump/policy", "The rules in force", auth.ForOperators, (*Handlers).koalaPolicy, false, nil, koala.Dump{}, nil},
		{
			"/monitor/alive", "Whether Redis answers", auth.ForServices, (*Handlers).koalaAlive, false, nil,
			koalaLiving{},
			koalaLiving{-1, "redis-error!"},
		},
	}
)

func parameter(name, doc string, required bool, values ...any) *huma.Param {
	return &huma.Param{
		Name: name, In: "query", Required: required, Description: doc,
		Schema: &huma.Schema{Type: huma.TypeString, Enum: values},
	}
}

// Routes are the routes of the endpoints on the internal listener, without Huma, whose errors have another format.
func (h *Handlers) Routes(l *route.Listener) []route.Route {
	if !l.Private {
		return nil
	}
	all := make([]route.Route, len(endpoints))
	for i, e := range endpoints {
		all[i] = route.Plain(route.Route{Operation: e.describe(l.Docs.OpenAPI().Components.Schemas), Roles: e.roles}, h.serve(e))
	}
	return all
}

// describe returns the endpoint for the OpenAPI document.
func (e *endpoint) describe(schemas huma.Registry) huma.Operation {
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
	responses := map[string]*huma.Response{"200": {Description: "OK", Content: content(e.answers)}}
	responses["400"] = &huma.Response{Description: "A parameter is wrong", Content: content(koalaError{})}
	if e.failed != nil {
		responses["500"] = &huma.Response{Description: "Redis is away", Content: content(e.failed)}
	}
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		responses[strconv.Itoa(status)] = apidocs.ProblemResponse(status)
	}
	return huma.Operation{
		OperationID: name, Method: http.MethodGet, Path: Path + e.path, Summary: e.summary, Tags: tags, Parameters: parameters,
		Responses: responses,
	}
}

var tags = []string{"Koala"}

// refuseUnknown refuses parameters for the service that are not in own: with a typo such as _writeTrough=yes a request would never
// be limited.
func refuseUnknown(params koala.Params, own ...*huma.Param) error {
	for name := range params {
		if strings.HasPrefix(name, "_") && !slices.ContainsFunc(own, func(p *huma.Param) bool { return p.Name == name }) {
			return invalid("unknown parameter " + strconv.Quote(name))
		}
	}
	return nil
}
