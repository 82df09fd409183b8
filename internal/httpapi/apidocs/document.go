package apidocs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/internal/httpapi/document"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/internal/names"
)

//go:embed docs.html
var docsSource string

var docsPage = template.Must(template.New("docs").Funcs(template.FuncMap{"join": strings.Join}).Parse(docsSource))

//go:embed problem.html
var problemSource string

var problemPage = template.Must(template.New("problem").Parse(problemSource))

// Serve serves the documentation of the API: the OpenAPI document, a page made from it that begins with an introduction, and
// a page for every type of problem. All of it is rendered when it is first asked for, and loads nothing from elsewhere. refusals
// returns the statuses of the problems with which the listener's middleware may answer in place of an operation.
func Serve(e *echo.Echo, docs huma.API, introduction template.HTML, refusals func(path string, op *huma.Operation) []int) {
	text := func(id, path, summary, contentType string) *huma.Operation {
		return &huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"Documentation"},
			Responses: map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{contentType: {}}}},
		}
	}
	described := docs.OpenAPI()
	for _, op := range []*huma.Operation{
		text("openapi", "/openapi.json", "This document", "application/openapi+json"),
		text("docs", "/docs", "This document, to read", "text/html"),
	} {
		Fields(op.Responses["200"], "ETag")
		described.AddOperation(op)
	}
	problems := text("problem", "/problems/{name}", "What a type of problem means", "text/html")
	problems.Parameters = []*huma.Param{{Name: "name", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}}
	problems.Responses["404"] = ProblemResponse(http.StatusNotFound)
	described.AddOperation(problems)

	described.Servers = []*huma.Server{{URL: "/", Description: "The listener that serves this document"}}

	complete(described, refusals)
	e.GET("/openapi.json", fixed("application/openapi+json", func() ([]byte, error) { return standard(described) }))
	e.GET("/docs", fixed(echo.MIMETextHTMLCharsetUTF8, func() ([]byte, error) {
		var page bytes.Buffer
		err := docsPage.Execute(&page, outline(described, introduction))
		return page.Bytes(), err
	}))
	e.GET("/problems/:name", func(c echo.Context) error {
		named := slices.DeleteFunc(slices.Clone(problem.Kinds), func(k problem.Kind) bool { return k.Name != c.Param("name") })
		if len(named) == 0 {
			return problem.New(problem.UnknownProblem)
		}
		var page bytes.Buffer
		if err := problemPage.Execute(&page, named); err != nil {
			return err
		}
		return html(c, page.Bytes())
	})
}

// standard returns the document without the keyword patternDescription, which is Huma's own: validators refuse it beside those of OpenAPI.
func standard(described *huma.OpenAPI) ([]byte, error) {
	spec, err := json.Marshal(described)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(spec))
	decoder.UseNumber() // so that none is rounded
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	dropKey(document, "patternDescription")
	paths, _ := document.(map[string]any)["paths"].(map[string]any)
	for path, item := range paths {
		if strings.HasPrefix(path, "/v1/semaphores/") {
			describeNames(item, map[string]string{"name": names.SemaphorePattern})
		}
	}
	describeNames(document, namePatterns)
	return json.Marshal(document)
}

// namePatterns are those of parameters and members that name something. The server does not validate by them: where it reads, a
// name that cannot be is unknown, and where it makes something, the error describes valid names.
var namePatterns = map[string]string{
	"sale": names.SaleOrItemPattern, "item": names.SaleOrItemPattern,
	"room": names.RoomOrLanePattern, "lane": names.RoomOrLanePattern, "event_id": names.RoomOrLanePattern,
}

// describeNames adds the patterns of names to parameters and members.
func describeNames(v any, patterns map[string]string) {
	describe := func(name string, schema any) {
		if s, ok := schema.(map[string]any); ok && s["type"] == huma.TypeString && s["pattern"] == nil && patterns[name] != "" {
			s["pattern"] = patterns[name]
		}
	}
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["name"].(string); ok && v["in"] != nil {
			describe(name, v["schema"])
		}
		properties, _ := v["properties"].(map[string]any)
		for name, schema := range properties {
			describe(name, schema)
		}
		for _, member := range v {
			describeNames(member, patterns)
		}
	case []any:
		for _, element := range v {
			describeNames(element, patterns)
		}
	}
}

// dropKey removes the members of that name from all objects in v.
func dropKey(v any, name string) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, name)
		for _, member := range v {
			dropKey(member, name)
		}
	case []any:
		for _, element := range v {
			dropKey(element, name)
		}
	}
}

func html(c echo.Context, page []byte) error {
	harmless(c)
	return c.HTMLBlob(http.StatusOK, page)
}

// harmless sets header fields that restrict what a page may load and who may frame it.
func harmless(c echo.Context) {
	c.Response().Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	c.Response().Header().Set("X-Content-Type-Options", "nosniff")
}

// fixed serves a document that is the same for all clients.
func fixed(kind string, render func() ([]byte, error)) echo.HandlerFunc {
	rendered := sync.OnceValues(func() (*document.Document, error) {
		text, err := render()
		return document.New(text, gzip.BestCompression), err
	})
	return func(c echo.Context) error {
		d, err := rendered()
		if err != nil {
			return err
		}
		harmless(c)
		h := c.Response().Header()
		h.Set("Content-Type", kind)
		h.Set("Cache-Control", "max-age=300")
		d.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}

// Introductions of the pages.
const (
	PublicIntroduction template.HTML = `<p>Order a unit, then follow the order until it is confirmed:</p>
<pre>curl -i https://SHOP/v1/sales/SALE/orders -H 'Content-Type: application/json' -H 'Idempotency-Key: 2f1c6a0e-8f0b-4c6e-9a53-7d1f0b6c9e21' -d '{"item":"ITEM"}'
curl 'https://SHOP/v1/orders/ORDER_ID?wait_ms=10000'</pre>
<p>202: the order is accepted, and will not be lost. After 503 or no answer at all send the same request again, with the same key: it is the same order. Every other
refusal is <code>application/problem+json</code> with a <code>reason</code>, and is final for this request; <code>Retry-After</code> gives the time until another one makes sense.</p>`
	InternalIntroduction template.HTML = `<p>Ask whether a caller may come in, and open a sale:</p>
<pre>curl -X POST http://127.0.0.1:8081/v1/admit -H 'X-Tidegate-Token: TOKEN' -H 'Content-Type: application/json' -d '{"subject":{"user":"ann"},"attributes":{"route":"/search"}}'
curl -X PUT http://127.0.0.1:8081/v1/sales/SALE -H 'X-Tidegate-Token: TOKEN' -H 'Content-Type: application/json' \
  -d '{"starts_at":"2026-01-01T00:00:00Z","ends_at":"2035-01-01T00:00:00Z","items":[{"item":"ITEM","stock":100}]}'
curl -X POST http://127.0.0.1:8081/v1/sales/SALE/open -H 'X-Tidegate-Token: TOKEN'</pre>
<p>This listener is for services and operators, never for browsers of buyers. The role of a token decides which calls it may make. Where no tokens are set, leave the field out.</p>`
)

// An operation is one call on the page.
type operation struct {
	ID, Method, Path, Summary string
	Parameters                []*huma.Param
	Body, Answer              string // JSON schemas
	Statuses                  []string
}

// A chapter is the operations of one tag.
type chapter struct {
	Name, ID   string
	Operations []operation
}

type outlined struct {
	Title, Version string
	Introduction   template.HTML
	Chapters       []chapter
	Schemas        map[string]string
}

// firstTags begin the page, in this order: what most readers need. The others follow by name, and lastTags, which few need,
// come last.
var (
	firstTags = []string{"Orders", "Decisions", "Sales", "CAPTCHA", "Semaphores", "Login"}
	lastTags  = []string{"Health", "Documentation"}
)

// placeOfTag returns the sort position of a tag.
func placeOfTag(tag string) int {
	if i := slices.Index(firstTags, tag); i >= 0 {
		return i - len(firstTags)
	}
	return slices.Index(lastTags, tag) + 1
}

// Operations returns the operations of a path, by method.
func Operations(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{
		"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete, "OPTIONS": item.Options,
	}
	maps.DeleteFunc(all, func(_ string, op *huma.Operation) bool { return op == nil })
	return all
}

// outline selects from the document what the page shows, by tags and in the order of the paths.
func outline(described *huma.OpenAPI, introduction template.HTML) outlined {
	out := outlined{Title: described.Info.Title, Version: described.Info.Version, Introduction: introduction, Schemas: map[string]string{}}
	byTag := map[string][]operation{}
	for path, item := range described.Paths {
		for method, op := range Operations(item) {
			o := operation{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Parameters: op.Parameters}
			if op.RequestBody != nil {
				o.Body = schemaName(op.RequestBody.Content)
			}
			for status, r := range op.Responses {
				if status != "default" {
					o.Statuses = append(o.Statuses, status)
				}
				if strings.HasPrefix(status, "2") {
					o.Answer = schemaName(r.Content)
				}
			}
			slices.Sort(o.Statuses)
			byTag[op.Tags[0]] = append(byTag[op.Tags[0]], o)
		}
	}
	for tag, operations := range byTag {
		slices.SortFunc(operations, func(x, y operation) int { return strings.Compare(x.Path+" "+x.Method, y.Path+" "+y.Method) })
		out.Chapters = append(out.Chapters, chapter{Name: tag, ID: strings.ToLower(strings.ReplaceAll(tag, " ", "-")), Operations: operations})
	}
	slices.SortFunc(out.Chapters, func(x, y chapter) int {
		return cmp.Or(cmp.Compare(placeOfTag(x.Name), placeOfTag(y.Name)), strings.Compare(x.Name, y.Name))
	})
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
