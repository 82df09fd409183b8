// Package contract checks, in tests, whether the answers of a server are those that its OpenAPI document describes.
package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Document is an OpenAPI 3.1 document. It is stricter than the text: a response must have no member that is not declared,
// because a generated client drops it. Make it with Parse. It is safe for concurrent use.
type Document struct {
	root   map[string]any
	routes *http.ServeMux
	below  []string // paths before {path}

	mu       sync.Mutex
	compiler *jsonschema.Compiler          // guarded by mu
	schemas  map[string]*jsonschema.Schema // by JSON pointer; guarded by mu
}

// location is the name of the document within the compiler.
const location = "https://tidegate.example/openapi.json"

// Parse reads a document. Segments named {path} stand for any number of segments, which OpenAPI cannot express.
func Parse(text []byte) (*Document, error) {
	decoded, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	root, _ := decoded.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	if paths == nil {
		return nil, errors.New("contract: the document has no paths")
	}
	closeObjects(root)
	d := &Document{root: root, routes: http.NewServeMux(), compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(location, root); err != nil {
		return nil, err
	}
	for path, item := range paths {
		for method := range item.(map[string]any) {
			pattern := path
			if before, ok := strings.CutSuffix(path, "{path}"); ok {
				d.below = append(d.below, before)
			}
			if path == "/" {
				pattern = "/{$}"
			}
			d.routes.Handle(strings.ToUpper(method)+" "+pattern, operation{d, []string{"paths", path, method}})
		}
	}
	return d, nil
}

// closeObjects refuses undeclared members in all schemas that declare some.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["additionalProperties"] == true && v["properties"] != nil {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeObjects(member)
		}
	case []any:
		for _, element := range v {
			closeObjects(element)
		}
	}
}

// An operation is a handler only so that a ServeMux finds it.
type operation struct {
	*Document
	at []string // JSON pointer
}

func (operation) ServeHTTP(http.ResponseWriter, *http.Request) {}

// unsaid are header fields of HTTP itself, or for browsers, which a caller of the API neither obeys nor uses.
var unsaid = []string{
	"Connection", "Content-Encoding", "Content-Length", "Content-Security-Policy", "Content-Type", "Date", "Referrer-Policy",
	"Transfer-Encoding", "Vary", "X-Accel-Buffering",
	"X-Content-Type-Options",
}

// outside are the statuses of requests that are not as the document has them: only these may be left to the default response.
var outside = []int{400, 408, 413, 415, 422}

// Mismatches returns what the document does not have of the answer to a request. body is left out where it is a stream.
func (d *Document) Mismatches(method string, target *url.URL, status int, header http.Header, body []byte) []string {
	if method == http.MethodHead {
		method, body = http.MethodGet, nil
	}
	for _, before := range d.below {
		if strings.HasPrefix(target.Path, before) {
			target = &url.URL{Path: before + "x"}
		}
	}
	found, _ := d.routes.Handler(&http.Request{Method: method, URL: target})
	op, ok := found.(operation)
	if !ok {
		return d.unrouted(method, status, header, body)
	}
	responses := append(slices.Clone(op.at), "responses")
	at := append(slices.Clone(responses), strconv.Itoa(status))
	response, at, ok := d.object(at)
	if !ok && slices.Contains(outside, status) {
		response, at, ok = d.object(append(responses, "default"))
	}
	if !ok {
		return []string{fmt.Sprintf("status %d is not declared", status)}
	}
	var wrong []string
	declared, _ := response["headers"].(map[string]any)
	for name, values := range header {
		key := ""
		for k := range declared {
			if strings.EqualFold(k, name) {
				key = k
			}
		}
		switch {
		case key != "":
			_, of, _ := d.object(append(slices.Clone(at), "headers", key))
			schema, of, _ := d.object(append(of, "schema"))
			wrong = append(wrong, d.invalid(of, headerValue(values, schema), "header "+name)...)
		case !slices.Contains(unsaid, name) && !strings.HasPrefix(name, "Access-Control-"):
			wrong = append(wrong, fmt.Sprintf("header %s is not declared", name))
		}
	}
	content, _ := response["content"].(map[string]any)
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch media, ok := content[kind].(map[string]any); {
	case len(body) == 0 && (content == nil || method == http.MethodGet):
	case !ok:
		wrong = append(wrong, fmt.Sprintf("content type %q is not declared", header.Get("Content-Type")))
	case media["schema"] != nil && strings.HasSuffix(kind, "json"):
		wrong = append(wrong, d.invalidText(append(at, "content", kind, "schema"), body)...)
	}
	return wrong
}

// describable are the methods of an operation, but for HEAD, which is that of GET.
var describable = []string{
	http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions, http.MethodPatch,
	http.MethodTrace,
}

// unrouted checks an answer to a request for which the document has no operation: a problem, or that to a preflight. For other
// methods it can have none.
func (d *Document) unrouted(method string, status int, header http.Header, body []byte) []string {
	if method == http.MethodOptions && status == http.StatusNoContent || !slices.Contains(describable, method) {
		return nil
	}
	if status < 400 || header.Get("Content-Type") != "application/problem+json" {
		return []string{fmt.Sprintf("no such operation is declared, and the answer is %d as %q", status, header.Get("Content-Type"))}
	}
	if body == nil {
		return nil
	}
	return d.invalidText([]string{"components", "schemas", "Problem"}, body)
}

// headerValue returns a field as a schema sees it.
func headerValue(values []string, schema map[string]any) any {
	text := strings.Join(values, ", ")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && schema["type"] == "integer" {
		return json.Number(strconv.FormatInt(n, 10))
	}
	return text
}

// object returns the object at a JSON pointer, or the one that it refers to, and where that is.
func (d *Document) object(at []string) (found map[string]any, where []string, ok bool) {
	var v any = d.root
	for _, key := range at {
		members, ok := v.(map[string]any)
		if !ok {
			return nil, nil, false
		}
		v = members[key]
	}
	found, ok = v.(map[string]any)
	if ref, refers := found["$ref"].(string); refers {
		return d.object(strings.Split(strings.TrimPrefix(ref, "#/"), "/"))
	}
	return found, at, ok
}

func (d *Document) invalidText(schema []string, text []byte) []string {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return []string{"body: " + err.Error()}
	}
	return d.invalid(schema, v, "body")
}

// invalid returns what a schema refuses in v.
func (d *Document) invalid(schema []string, v any, what string) []string {
	escaped := make([]string, len(schema))
	for i, key := range schema {
		escaped[i] = url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	pointer := "#/" + strings.Join(escaped, "/")
	d.mu.Lock()
	defer d.mu.Unlock()
	compiled, err := d.schemas[pointer], error(nil)
	if compiled == nil {
		if compiled, err = d.compiler.Compile(location + pointer); err != nil {
			return []string{what + ": " + err.Error()}
		}
		d.schemas[pointer] = compiled
	}
	if err := compiled.Validate(v); err != nil {
		_, reasons, _ := strings.Cut(err.Error(), "\n")
		return []string{what + ": " + strings.ReplaceAll(reasons, "\n", " ")}
	}
	return nil
}
