package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/orders"
)

func documentOf(t *testing.T, h http.Handler) map[string]any {
	t.Helper()
	w := call(h, "GET", "/openapi.json", "")
	var spec map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &spec); err != nil || w.Code != 200 || spec["openapi"] != "3.1.0" {
		t.Fatalf("%d %.200s", w.Code, w.Body)
	}
	return spec
}

func TestDocumentNamesEveryRoute(t *testing.T) {
	b := setup(t, withSemaphores(t), withRooms(t), documentedKoala(t, nil))
	for name, e := range map[string]*echo.Echo{"public": b.public, "internal": b.internal} {
		var served, documented []string
		for _, r := range e.Routes() {
			if admit.IsAuthz(r.Path) && !slices.Contains(admit.AuthzMethods, r.Method) {
				continue // served in the same way; the document cannot describe PROPFIND and others
			}
			served = append(served, r.Method+" "+regexp.MustCompile(`:(\w+)`).ReplaceAllString(strings.ReplaceAll(r.Path, "*", "{path}"), "{$1}"))
		}
		for path, item := range documentOf(t, e)["paths"].(map[string]any) {
			for method := range item.(map[string]any) {
				documented = append(documented, strings.ToUpper(method)+" "+path)
			}
		}
		slices.Sort(served)
		slices.Sort(documented)
		if !slices.Equal(served, documented) {
			t.Errorf("%s serves\n%v\nand documents\n%v", name, served, documented)
		}
	}
}

// keywords are those of the schemas of OpenAPI 3.1 that the documents use. Validators such as kin-openapi refuse a document with any other.
var keywords = strings.Fields(`$ref additionalProperties anyOf const contentEncoding default description enum examples exclusiveMinimum format items maxItems
	maxLength maxProperties maximum minItems minLength minimum oneOf pattern properties propertyNames readOnly required type uniqueItems`)

// unknownKeywords lists what is not a keyword in a schema and in those within it.
func unknownKeywords(schema map[string]any) (unknown []string) {
	for name, v := range schema {
		if !slices.Contains(keywords, name) {
			unknown = append(unknown, name)
		}
		switch v := v.(type) {
		case map[string]any:
			if name == "properties" {
				for _, property := range v {
					unknown = append(unknown, unknownKeywords(property.(map[string]any))...)
				}
			} else if name != "default" {
				unknown = append(unknown, unknownKeywords(v)...)
			}
		case []any:
			for _, one := range v {
				if schema, ok := one.(map[string]any); ok && name != "examples" && name != "enum" {
					unknown = append(unknown, unknownKeywords(schema)...)
				}
			}
		}
	}
	return unknown
}

// TestDocumentsAreStandard: other tools read the documents, and find the server.
func TestDocumentsAreStandard(t *testing.T) {
	b := setup(t, withSemaphores(t), withRooms(t), documentedKoala(t, nil))
	for name, h := range map[string]http.Handler{"public": b.public, "internal": b.internal} {
		document := documentOf(t, h)
		if servers, _ := json.Marshal(document["servers"]); !strings.HasPrefix(string(servers), `[{"description":"The listener that serves this document","url":"/"`) {
			t.Errorf("%s: servers %s", name, servers)
		}
		schemas := 0
		var look func(v any)
		look = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				if schema, ok := v["schema"].(map[string]any); ok {
					schemas++
					if unknown := unknownKeywords(schema); unknown != nil {
						t.Errorf("%s: %v in %v", name, unknown, v)
					}
				}
				for _, member := range v {
					look(member)
				}
			case []any:
				for _, element := range v {
					look(element)
				}
			}
		}
		look(document["paths"])
		for of, schema := range document["components"].(map[string]any)["schemas"].(map[string]any) {
			schemas++
			if unknown := unknownKeywords(schema.(map[string]any)); unknown != nil {
				t.Errorf("%s: %v in %s", name, unknown, of)
			}
		}
		if schemas < 20 {
			t.Errorf("%s: only %d schemas", name, schemas)
		}
	}
}

var verdicts = []admission.Verdict{
	{Rule: "api", Algorithm: store.SlidingLog, Action: rules.Deny, Reason: admission.RateLimited, Limit: 1, RetryAfter: 1},
	{Rule: "free", Algorithm: rules.Direct, Action: rules.Allow, Admitted: true, Limit: rules.Unlimited, Remaining: rules.Unlimited},
}

func withVerdicts(b *bed) {
	b.gate.decision = admission.Decision{Action: rules.Deny, Reason: admission.RateLimited, Rule: "api", At: noon, Rules: verdicts}
}

// TestAnswersMatchTheDocument: responses have a documented status, and the schema documented for it.
func TestAnswersMatchTheDocument(t *testing.T) {
	t.Parallel()
	id := "/v1/orders/" + orderID.String()
	for _, tt := range []struct {
		internal           bool
		method, path, body string
		route              string
		status             int
		prepare            func(*bed)
	}{
		{false, "GET", "/livez", "", "/livez", 200, nil},
		{false, "GET", "/readyz", "", "/readyz", 200, nil},
		{false, "GET", "/readyz", "", "/readyz", 503, func(b *bed) { b.Drain() }},
		{false, "GET", "/v1/sales/flash", "", "/v1/sales/{sale}", 200, nil},
		{false, "GET", "/v1/sales/none", "", "/v1/sales/{sale}", 404, nil},
		{false, "POST", placePath, `{"item":"shoe"}`, "/v1/sales/{sale}/orders", 202, nil},
		{false, "POST", placePath, `{"item":"shoe","quantity":0}`, "/v1/sales/{sale}/orders", 422, nil},
		{
			false, "POST", placePath, `{"item":"shoe"}`, "/v1/sales/{sale}/orders", 409,
			func(b *bed) { b.orders.reserve = orders.Outcome{Reason: orders.ReasonNotEnough, Free: 1} },
		},
		{false, "POST", placePath, `{"item":"shoe"}`, "/v1/sales/{sale}/orders", 429, func(b *bed) {
			b.gate.decision = admission.Decision{Reason: admission.RateLimited, Rules: []admission.Verdict{{Rule: "orders", Limit: 1, Reason: admission.RateLimited}}}
		}},
		{false, "POST", placePath, `{"item":"shoe"}`, "/v1/sales/{sale}/orders", 500, func(b *bed) { b.orders.panics = true }},
		{false, "GET", id, "", "/v1/orders/{id}", 200, nil},
		{false, "GET", id, "", "/v1/orders/{id}", 200, func(b *bed) { b.orders.found = accepted }},
		{false, "GET", placePath, "", "/v1/sales/{sale}/orders", 200, func(b *bed) { b.orders.list = []orders.Order{accepted, confirmed} }},
		{false, "GET", "/problems/none", "", "/problems/{name}", 404, nil},
		{true, "GET", id, "", "/v1/orders/{id}", 200, nil},
		{true, "GET", placePath, "", "/v1/sales/{sale}/orders", 200, func(b *bed) { b.orders.list = []orders.Order{accepted, confirmed} }},
		{true, "PUT", "/v1/sales/flash", definition, "/v1/sales/{sale}", 200, nil},
		{true, "PUT", "/v1/sales/flash", definition, "/v1/sales/{sale}", 201, func(b *bed) { b.orders.created = true }},
		{true, "POST", "/v1/sales/flash/open", "", "/v1/sales/{sale}/open", 200, nil},
		{true, "POST", "/v1/sales/none/pause", "", "/v1/sales/{sale}/pause", 404, nil},
		{true, "POST", "/v1/sales/flash/close", "", "/v1/sales/{sale}/close", 200, nil},
		{true, "GET", "/v1/sales", "", "/v1/sales", 200, nil},
		{true, "GET", "/v1/sales/flash/verify", "", "/v1/sales/{sale}/verify", 200, func(b *bed) { b.orders.checks = []orders.Check{{Invariant: "I17", OK: true, Waiting: 2}} }},
		{false, "POST", id + "/cancel", "", "/v1/orders/{id}/cancel", 200, nil},
		{false, "POST", id + "/cancel", "", "/v1/orders/{id}/cancel", 409, func(b *bed) { b.orders.err = orders.ErrOrderFinal }},
		{true, "POST", id + "/cancel", "", "/v1/orders/{id}/cancel", 200, nil},
		{
			true, "POST", id + "/payment", capture, "/v1/orders/{id}/payment", 200,
			func(b *bed) { b.orders.paid = orders.Payment{Action: orders.ActionNone, Status: orders.StatusPaid} },
		},
		{true, "POST", id + "/payment", capture, "/v1/orders/{id}/payment", 409, func(b *bed) { b.orders.err = orders.ErrConflict }},
		{true, "POST", id + "/payment", `{}`, "/v1/orders/{id}/payment", 422, nil},
		{true, "GET", "/v1/order-events", "", "/v1/order-events", 200, func(b *bed) { b.orders.events = feed }},
		{true, "GET", "/v1/order-events?after=x", "", "/v1/order-events", 422, nil},
		{true, "GET", "/v1/orders/dead", "", "/v1/orders/dead", 200, func(b *bed) { b.orders.dead = buried }},
		{true, "POST", "/v1/orders/dead/" + orderID.String() + "/replay", "", "/v1/orders/dead/{id}/replay", 200, nil},
		{
			true, "POST", "/v1/orders/dead/" + orderID.String() + "/replay", "", "/v1/orders/dead/{id}/replay", 409,
			func(b *bed) { b.orders.err = orders.ErrConflict },
		},
		{true, "GET", "/v1/rules", "", "/v1/rules", 200, nil},
		{true, "POST", "/v1/rules/reload", "", "/v1/rules/reload", 200, nil},
		{true, "POST", "/v1/rules/reload", "", "/v1/rules/reload", 422, func(b *bed) { b.gate.err = &rules.Error{File: "x", Line: 1, Column: 1} }},
		{true, "GET", "/readyz", "", "/readyz", 200, func(b *bed) { b.gate.stats.Degraded = true }},
		{false, "POST", placePath, `{"item":"shoe"}`, "/v1/sales/{sale}/orders", 403, func(b *bed) { b.gate.decision = admission.Decision{Reason: admission.Banned} }},
		{false, "GET", "/v1/sales/flash", "", "/v1/sales/{sale}", 403, func(b *bed) { b.gate.decision = admission.Decision{Reason: admission.CaptchaRequired} }},
		{true, "POST", "/v1/admit", `{}`, "/v1/admit", 200, withVerdicts},
		{true, "POST", "/v1/admit", `{"attributes":{"a":1,"b":"x","c":true}}`, "/v1/admit", 200, nil},
		{true, "POST", "/v1/admit", `{}`, "/v1/admit", 503, func(b *bed) { b.gate.err = admission.ErrUnavailable }},
		{true, "POST", "/v1/admit", `{"mode":"refund","request_id":"x"}`, "/v1/admit", 404, func(b *bed) { b.gate.err = admission.ErrUnknownRequest }},
		{true, "POST", "/v1/admit/batch", `{"requests":[{},{}]}`, "/v1/admit/batch", 200, withVerdicts},
		{true, "GET", "/v1/explain?user=ann", "", "/v1/explain", 200, func(b *bed) {
			ban := banned(bans.User, "ann")
			b.gate.explanation = admission.Explanation{Ban: &ban, Allowed: "office", Rules: []admission.RuleState{{Rule: "api", Reason: "match", Windows: verdicts}}}
		}},
		{true, "GET", "/v1/bans", "", "/v1/bans", 200, func(b *bed) { b.gate.bans = []bans.Ban{banned(bans.User, "ann")} }},
		{true, "PUT", "/v1/bans/user/ann", `{"for_ms":1,"reason":"x"}`, "/v1/bans/{kind}/{value}", 200, nil},
		{true, "DELETE", "/v1/bans/user/ann", "", "/v1/bans/{kind}/{value}", 404, nil},
		{true, "GET", "/v1/bans/history", "", "/v1/bans/history", 200, nil},
		{true, "GET", "/v1/authz", "", "/v1/authz", 422, nil},
	} {
		b := setup(t)
		if tt.prepare != nil {
			tt.prepare(b)
		}
		h := b.Public()
		if tt.internal {
			h = b.Internal()
		}
		matchesDocument(t, h, tt.method, tt.path, tt.body, tt.route, tt.status)
	}
}

// matchesDocument makes a call and checks the status of the response, and the schema documented for it.
func matchesDocument(t *testing.T, h http.Handler, method, path, body, route string, status int, fields ...string) *httptest.ResponseRecorder {
	t.Helper()
	w := call(h, method, path, body, fields...)
	where := fmt.Sprintf("%s %s: %d", method, path, w.Code)
	if w.Code != status {
		t.Errorf("%s %s", where, w.Body)
		return w
	}
	spec := documentOf(t, h)
	op := spec["paths"].(map[string]any)[route].(map[string]any)[strings.ToLower(method)].(map[string]any)
	response, ok := op["responses"].(map[string]any)[strconv.Itoa(w.Code)].(map[string]any)
	if !ok {
		t.Errorf("%s is not documented", where)
		return w
	}
	if w.Body.Len() == 0 && response["content"] == nil {
		return w
	}
	media, ok := response["content"].(map[string]any)[w.Header().Get("Content-Type")].(map[string]any)
	if !ok {
		t.Errorf("%s: %s is not documented", where, w.Header().Get("Content-Type"))
		return w
	}
	var answer any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	for _, wrong := range mismatches(spec, media["schema"].(map[string]any), answer, "body") {
		t.Errorf("%s: %s", where, wrong)
	}
	return w
}

// mismatches checks as much of JSON Schema as the documents use. Fields that are not in the schema also count as mismatches.
func mismatches(spec, schema map[string]any, v any, at string) (wrong []string) {
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		schema = spec["components"].(map[string]any)["schemas"].(map[string]any)[name].(map[string]any)
	}
	var types []any
	switch t := schema["type"].(type) {
	case string:
		types = []any{t}
	case []any:
		types = t
	}
	is := map[bool]string{}
	kind := "null"
	switch v := v.(type) {
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
		is[v == float64(int64(v))] = "integer"
	case []any:
		kind = "array"
		items, _ := schema["items"].(map[string]any)
		for i, e := range v {
			wrong = append(wrong, mismatches(spec, items, e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		kind = "object"
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				wrong = append(wrong, at+"."+name.(string)+" is missing")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if p, ok := properties[name].(map[string]any); ok {
				wrong = append(wrong, mismatches(spec, p, v[name], at+"."+name)...)
			} else if properties != nil {
				wrong = append(wrong, at+"."+name+" is not documented")
			}
		}
	}
	if len(types) > 0 && !slices.Contains(types, any(kind)) && !slices.Contains(types, any(is[true])) {
		wrong = append(wrong, fmt.Sprintf("%s is %s, documented as %v", at, kind, types))
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		wrong = append(wrong, fmt.Sprintf("%s is %v, documented as %v", at, v, enum))
	}
	return wrong
}

// TestDocsBeginWithWhatIsNeeded: the page begins with what most readers need, and its table of contents has every call.
func TestDocsBeginWithWhatIsNeeded(t *testing.T) {
	b := setup(t, withSemaphores(t), withRooms(t), documentedKoala(t, nil))
	for name, first := range map[string][]string{
		"public":   {"<pre>curl -i", "/orders -H", ">Contents<", ">Orders</a>", "#call-place-order", ">Health</a>", `id="chapter-orders"`, "<td><code>X-User-ID</code></td>", `id="chapter-health"`, `id="schemas"`},
		"internal": {"/v1/admit", ">Contents<", ">Orders</a>", ">Decisions</a>", "#call-admit", ">Koala</a>", ">Documentation</a>", `id="chapter-decisions"`, `id="schemas"`},
	} {
		h := map[string]http.Handler{"public": b.public, "internal": b.internal}[name]
		page := call(h, "GET", "/docs", "").Body.String()
		rest := page
		for _, part := range first {
			at := strings.Index(rest, part)
			if at < 0 {
				t.Fatalf("%s: no %q behind what comes before it", name, part)
			}
			rest = rest[at:]
		}
		for path, item := range documentOf(t, h)["paths"].(map[string]any) {
			for method, op := range item.(map[string]any) {
				id := op.(map[string]any)["operationId"].(string)
				if !strings.Contains(page, `<a href="#call-`+id+`">`) || !strings.Contains(page, `<section id="call-`+id+`">`) {
					t.Errorf("%s: %s %s is not among the contents", name, method, path)
				}
			}
		}
	}
}

// TestFieldsOfTheCallerAreDocumented: each call documents the fields that identify its caller.
func TestFieldsOfTheCallerAreDocumented(t *testing.T) {
	b := setup(t)
	named := func(h http.Handler, path, method string) string {
		var names []string
		op := documentOf(t, h)["paths"].(map[string]any)[path].(map[string]any)[method].(map[string]any)
		parameters, _ := op["parameters"].([]any)
		for _, p := range parameters {
			if p := p.(map[string]any); p["in"] == "header" {
				names = append(names, p["name"].(string))
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	const order = "/v1/sales/{sale}/orders"
	for _, tt := range []struct {
		h            http.Handler
		path, method string
		want         string
	}{
		{b.public, order, "post", "Idempotency-Key X-Captcha X-Forwarded-For X-User-ID X-User-Tier"},
		{b.public, order, "get", "X-Captcha X-Forwarded-For X-User-ID X-User-Tier"},
		{b.public, "/v1/orders/{id}", "get", "X-Captcha X-Forwarded-For X-User-ID X-User-Tier"},
		{b.public, "/v1/orders/{id}/cancel", "post", "X-Captcha X-Forwarded-For X-User-ID X-User-Tier"},
		{b.public, "/livez", "get", ""},
		{b.internal, order, "post", "Idempotency-Key X-Captcha X-Forwarded-For X-User-ID X-User-Tier"},
		{b.internal, order, "get", ""},
	} {
		if got := named(tt.h, tt.path, tt.method); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.path, got, tt.want)
		}
	}
}

func TestDocsLoadNothing(t *testing.T) {
	b := setup(t)
	for _, h := range []http.Handler{b.Public(), b.Internal()} {
		w := call(h, "GET", "/docs", "")
		page := w.Body.String()
		if w.Code != 200 || !strings.Contains(page, "POST /v1/sales/{sale}/orders") || !strings.Contains(page, `id="Problem"`) {
			t.Errorf("%d %.300s", w.Code, page)
		}
		for _, foreign := range []string{"<script", "src=", "<link", "@import", "url("} {
			if strings.Contains(page, foreign) {
				t.Errorf("the page has %s", foreign)
			}
		}
		if !strings.HasPrefix(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%v", w.Header())
		}
	}
}
