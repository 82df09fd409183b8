package httpapi

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

func koalaParameter(name, doc string, required bool, values ...any) *huma.Param {
	return &huma.Param{Name: name, In: "query", Required: required, Description: doc, Schema: &huma.Schema{Type: huma.TypeString, Enum: values}}
}

// describe is e for the document.
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
