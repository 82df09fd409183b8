package httpapi

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidegate/tidegate/internal/koala"
)

// koalaAsked is what an endpoint of Koala's takes and returns, for the document.
type koalaAsked struct {
	request bool // the parameters that rules ask for
	own     []*huma.Param
	answer  any // of its type
	failure any // of the type of what 500 has
}

var (
	koalaWrite = koalaParameter("_writeThrough", "yes: count it too, at the same instant, if it is let in", false, "yes", "no")
	koalaErase = koalaParameter("_feedbackType", "How many units: as erase1 or erase2 of each rule says; erase1 if it is missing", false, "erase1", "erase2")
	koalaRule  = func(required bool) *huma.Param {
		return koalaParameter("rule_no", "Return number of a rule", required)
	}

	koalaAsks = map[string]koalaAsked{
		"/rule/browse":          {true, []*huma.Param{koalaWrite}, koala.Result{}, koalaError{}},
		"/rule/browse_complete": {true, []*huma.Param{koalaWrite}, []koala.Result{}, koalaError{}},
		"/rule/update":          {true, nil, koalaError{}, koalaError{}},
		"/rule/feedback":        {true, []*huma.Param{koalaErase}, koalaError{}, koalaError{}},
		"/rule/value":           {true, []*huma.Param{koalaRule(true)}, koalaValueAnswer{}, koalaError{}},
		"/multi/browse":         {false, []*huma.Param{koalaParameter("argsJson", `Such as [{"Id":"1","Arg":"act=ask&uid=7"}]`, true)}, []koalaJobResult{}, koalaError{}},
		"/dump/counter":         {false, []*huma.Param{koalaRule(false)}, koalaToday{}, koalaError{}},
		"/dump/policy":          {false, nil, koala.Dump{}, koalaError{}},
		"/monitor/alive":        {false, nil, koalaLiving{}, koalaLiving{}},
	}
)

func koalaParameter(name, doc string, required bool, values ...any) *huma.Param {
	return &huma.Param{Name: name, In: "query", Required: required, Description: doc, Schema: &huma.Schema{Type: huma.TypeString, Enum: values}}
}

// describe is e for the document.
func (e *koalaEndpoint) describe(schemas huma.Registry) *huma.Operation {
	asked := koalaAsks[e.path]
	name := "koala" + strings.NewReplacer("/", "-", "_", "-").Replace(e.path)
	content := func(of any) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(reflect.TypeOf(of), true, name)}}
	}
	parameters := asked.own
	if asked.request {
		explode := true
		parameters = append([]*huma.Param{{
			Name: "parameters", In: "query", Style: "form", Explode: &explode, Description: "What rules ask for, such as act=ask&uid=7",
			Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString}},
		}}, parameters...)
	}
	responses := refusals(&huma.Response{Description: "OK", Content: content(asked.answer)}, http.StatusUnauthorized, http.StatusForbidden)
	responses["400"] = &huma.Response{Description: "A parameter is wrong", Content: content(koalaError{})}
	responses["500"] = &huma.Response{Description: "Redis is away", Content: content(asked.failure)}
	return &huma.Operation{
		OperationID: name, Method: http.MethodGet, Path: koalaPath + e.path, Summary: e.summary, Tags: koalaTags, Parameters: parameters, Responses: responses,
	}
}

var koalaTags = []string{"Koala"}
