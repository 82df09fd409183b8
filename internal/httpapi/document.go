package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
)

//go:embed docs.html
var docsSource string

var docsPage = template.Must(template.New("docs").Funcs(template.FuncMap{"join": strings.Join}).Parse(docsSource))

//go:embed problem.html
var problemSource string

var problemPage = template.Must(template.New("problem").Parse(problemSource))

// document serves what explains the API: the OpenAPI document, a page made of
// it, and a page for every type of problem. All of it is rendered now, and
// loads nothing from elsewhere.
func (a *API) document(e *echo.Echo, docs huma.API) error {
	text := func(id, path, summary, contentType string) *huma.Operation {
		return &huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"Documentation"},
			Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{contentType: {}}}},
		}
	}
	described := docs.OpenAPI()
	described.AddOperation(text("openapi", "/openapi.json", "This document", "application/openapi+json"))
	described.AddOperation(text("docs", "/docs", "This document, to read", "text/html"))
	problems := text("problem", "/problems/{name}", "What a type of problem means", "text/html")
	problems.Parameters = []*huma.Param{{Name: "name", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}}
	problems.Responses["404"] = problemResponse(http.StatusNotFound)
	described.AddOperation(problems)

	spec, err := json.Marshal(described)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := docsPage.Execute(&page, outline(described)); err != nil {
		return err
	}
	e.GET("/openapi.json", func(c echo.Context) error { return c.Blob(http.StatusOK, "application/openapi+json", spec) })
	e.GET("/docs", func(c echo.Context) error { return html(c, page.Bytes()) })
	e.GET("/problems/:name", func(c echo.Context) error {
		named := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.Name != c.Param("name") })
		if len(named) == 0 {
			return problem(reasonUnknownProblem)
		}
		var page bytes.Buffer
		if err := problemPage.Execute(&page, named); err != nil {
			return err
		}
		return html(c, page.Bytes())
	})
	return nil
}

func problemResponse(status int) *huma.Response {
	return &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{
		"application/problem+json": {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}},
	}}
}

func html(c echo.Context, page []byte) error {
	c.Response().Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	c.Response().Header().Set("X-Content-Type-Options", "nosniff")
	return c.HTMLBlob(http.StatusOK, page)
}

// An operation is one call on the page.
type operation struct {
	Method, Path, Summary string
	Parameters            []*huma.Param
	Body, Answer          string // JSON schemas
	Statuses              []string
}

type outlined struct {
	Title, Version string
	Operations     []operation
	Schemas        map[string]string
}

// outline picks from the document what the page shows, in the order of the paths.
func outline(described *huma.OpenAPI) outlined {
	out := outlined{Title: described.Info.Title, Version: described.Info.Version, Schemas: map[string]string{}}
	for path, item := range described.Paths {
		for method, op := range map[string]*huma.Operation{
			"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete, "OPTIONS": item.Options,
		} {
			if op == nil {
				continue
			}
			o := operation{Method: method, Path: path, Summary: op.Summary, Parameters: op.Parameters}
			if op.RequestBody != nil {
				o.Body = schemaName(op.RequestBody.Content)
			}
			for status, r := range op.Responses {
				o.Statuses = append(o.Statuses, status)
				if strings.HasPrefix(status, "2") {
					o.Answer = schemaName(r.Content)
				}
			}
			slices.Sort(o.Statuses)
			out.Operations = append(out.Operations, o)
		}
	}
	slices.SortFunc(out.Operations, func(x, y operation) int { return strings.Compare(x.Path+" "+x.Method, y.Path+" "+y.Method) })
	for name, s := range described.Components.Schemas.Map() {
		if text, err := json.MarshalIndent(s, "", "  "); err == nil {
			out.Schemas[name] = string(text)
		}
	}
	return out
}

func schemaName(content map[string]*huma.MediaType) string {
	if c := content["application/json"]; c != nil && c.Schema != nil {
		return strings.TrimPrefix(c.Schema.Ref, "#/components/schemas/")
	}
	return ""
}
