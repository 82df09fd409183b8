package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/httpapi/admit"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/waitingroom"
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
	b := setup(t, withSemaphores(t), withRooms(t), documentedKoala(t, nil), withPage)
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

// TestAnswersMatchTheDocument: answers of every route, which a bed checks against the document.
func TestAnswersMatchTheDocument(t *testing.T) {
	t.Parallel()
	id := "/v1/orders/" + orderID.String()
	for _, tt := range []struct {
		internal           bool
		method, path, body string
		status             int
		prepare            func(*bed)
	}{
		{false, "GET", "/livez", "", 200, nil},
		{false, "GET", "/readyz", "", 200, nil},
		{false, "GET", "/readyz", "", 503, func(b *bed) { b.Drain() }},
		{false, "GET", "/v1/sales/flash", "", 200, nil},
		{false, "GET", "/v1/sales/none", "", 404, nil},
		{false, "POST", placePath, `{"item":"shoe"}`, 202, nil},
		{false, "POST", placePath, `{"item":"shoe","quantity":0}`, 422, nil},
		{
			false, "POST", placePath, `{"item":"shoe"}`, 409,
			func(b *bed) { b.orders.reserve = orders.Outcome{Reason: orders.ReasonNotEnough, Free: 1} },
		},
		{false, "POST", placePath, `{"item":"shoe"}`, 429, func(b *bed) {
			b.gate.decision = admission.Decision{Reason: admission.RateLimited, Rules: []admission.Verdict{{Rule: "orders", Limit: 1, Reason: admission.RateLimited}}}
		}},
		{false, "POST", placePath, `{"item":"shoe"}`, 500, func(b *bed) { b.orders.panics = true }},
		{false, "GET", id, "", 200, nil},
		{false, "GET", id, "", 200, func(b *bed) { b.orders.found = accepted }},
		{false, "GET", placePath, "", 200, func(b *bed) { b.orders.list = []orders.Order{accepted, confirmed} }},
		{false, "GET", "/problems/none", "", 404, nil},
		{true, "GET", id, "", 200, nil},
		{true, "GET", placePath, "", 200, func(b *bed) { b.orders.list = []orders.Order{accepted, confirmed} }},
		{true, "PUT", "/v1/sales/flash", definition, 200, nil},
		{true, "PUT", "/v1/sales/flash", definition, 201, func(b *bed) { b.orders.created = true }},
		{true, "PUT", "/v1/sales/flash?force=true", definition, 200, nil},
		{true, "PUT", "/v1/sales/flash", definition, 409, func(b *bed) { b.orders.err = orders.ErrForceRequired }},
		{true, "POST", "/v1/sales/flash/open", "", 200, nil},
		{true, "POST", "/v1/sales/none/pause", "", 404, nil},
		{true, "POST", "/v1/sales/flash/close", "", 200, nil},
		{true, "GET", "/v1/sales", "", 200, nil},
		{true, "GET", "/v1/sales/flash/verify", "", 200, func(b *bed) { b.orders.checks = []orders.Check{{Invariant: "I17", OK: true, Waiting: 2}} }},
		{false, "POST", id + "/cancel", "", 200, nil},
		{false, "POST", id + "/cancel", "", 409, func(b *bed) { b.orders.err = orders.ErrOrderFinal }},
		{true, "POST", id + "/cancel", "", 200, nil},
		{
			true, "POST", id + "/payment", capture, 200,
			func(b *bed) { b.orders.paid = orders.Payment{Action: orders.ActionNone, Status: orders.StatusPaid} },
		},
		{true, "POST", id + "/payment", capture, 409, func(b *bed) { b.orders.err = orders.ErrConflict }},
		{true, "POST", id + "/payment", `{}`, 422, nil},
		{true, "GET", "/v1/order-events", "", 200, func(b *bed) { b.orders.events = feed }},
		{true, "GET", "/v1/order-events?after=x", "", 422, nil},
		{true, "GET", "/v1/orders/dead", "", 200, func(b *bed) { b.orders.dead = buried }},
		{true, "POST", "/v1/orders/dead/" + orderID.String() + "/replay", "", 200, nil},
		{
			true, "POST", "/v1/orders/dead/" + orderID.String() + "/replay", "", 409,
			func(b *bed) { b.orders.err = orders.ErrConflict },
		},
		{true, "GET", "/v1/rules", "", 200, nil},
		{true, "POST", "/v1/rules/reload", "", 200, nil},
		{true, "POST", "/v1/rules/reload", "", 422, func(b *bed) { b.gate.err = &rules.Error{File: "x", Line: 1, Column: 1} }},
		{true, "GET", "/readyz", "", 200, func(b *bed) { b.gate.stats.Degraded = true }},
		{false, "POST", placePath, `{"item":"shoe"}`, 403, func(b *bed) { b.gate.decision = admission.Decision{Reason: admission.Banned} }},
		{false, "GET", "/v1/sales/flash", "", 403, func(b *bed) { b.gate.decision = admission.Decision{Reason: admission.CaptchaRequired} }},
		{true, "POST", "/v1/admit", `{}`, 200, withVerdicts},
		{true, "POST", "/v1/admit", `{"attributes":{"a":1,"b":"x","c":true}}`, 200, nil},
		{true, "POST", "/v1/admit", `{}`, 503, func(b *bed) { b.gate.err = admission.ErrUnavailable }},
		{true, "POST", "/v1/admit", `{"mode":"refund","request_id":"x"}`, 404, func(b *bed) { b.gate.err = admission.ErrUnknownRequest }},
		{true, "POST", "/v1/admit/batch", `{"requests":[{},{}]}`, 200, withVerdicts},
		{true, "GET", "/v1/explain?user=ann", "", 200, func(b *bed) {
			ban := banned(bans.User, "ann")
			b.gate.explanation = admission.Explanation{Ban: &ban, Allowed: "office", Rules: []admission.RuleState{{Rule: "api", Reason: "match", Windows: verdicts}}}
		}},
		{true, "GET", "/v1/bans", "", 200, func(b *bed) { b.gate.bans = []bans.Ban{banned(bans.User, "ann")} }},
		{true, "PUT", "/v1/bans/user/ann", `{"for_ms":1,"reason":"x"}`, 200, nil},
		{true, "DELETE", "/v1/bans/user/ann", "", 404, nil},
		{true, "GET", "/v1/bans/history", "", 200, nil},
		{true, "GET", "/v1/authz", "", 422, nil},
	} {
		b := setup(t)
		if tt.prepare != nil {
			tt.prepare(b)
		}
		h := b.Public()
		if tt.internal {
			h = b.Internal()
		}
		answers(t, h, tt.method, tt.path, tt.body, tt.status)
	}
}

// answers makes a call and checks the status of the response; a bed's handlers check the rest of it.
func answers(t *testing.T, h http.Handler, method, path, body string, status int, fields ...string) *httptest.ResponseRecorder {
	t.Helper()
	w := call(h, method, path, body, fields...)
	if w.Code != status {
		t.Errorf("%s %s: %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	return w
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

// TestNamesAreDescribed: the patterns of names accept what the server accepts.
func TestNamesAreDescribed(t *testing.T) {
	b := setup(t, withSemaphores(t), withRooms(t))
	paths := documentOf(t, b.Internal())["paths"].(map[string]any)
	for path, valid := range map[string]func(string) bool{
		"/v1/sales/{sale}": orders.ValidName, "/v1/rooms/{room}": waitingroom.ValidName,
		"/v1/semaphores/{name}": func(name string) bool { return semaphore.CheckName(name) == nil },
	} {
		for method, op := range paths[path].(map[string]any) {
			described := op.(map[string]any)["parameters"].([]any)[0].(map[string]any)["schema"].(map[string]any)
			pattern, _ := described["pattern"].(string)
			if pattern == "" {
				t.Errorf("%s %s describes no name: %v", method, path, described)
				continue
			}
			for _, name := range []string{"a", "A", "0", "-", ".", "_", "a-b", "a.b", "a_b", "é", "a b", "tag:name", ":name", "tag:", "a:b:c", "\x00", strings.Repeat("a", 64), strings.Repeat("a", 65)} {
				if got, want := regexp.MustCompile(pattern).MatchString(name), valid(name); got != want {
					t.Errorf("%s %s: the document says %t of the name %q, and the server %t", method, path, got, name, want)
				}
			}
		}
	}
}

// TestLengthsAreCharacters: what the document allows is accepted, however many bytes its characters have; what is longer is refused by its name.
func TestLengthsAreCharacters(t *testing.T) {
	const first, last = `{"mode":"fifo","starts_at":"2030-01-01T00:00:00Z"`, `}`
	b := setupLogin(t, withSemaphores(t), withRooms(t))
	h := b.Internal()
	answers(t, h, "PUT", "/v1/rooms/door", first+last, 201)
	answers(t, h, "PUT", "/v1/semaphores/report", `{"limit":9}`, 200)
	for _, tt := range []struct {
		method, path, before, after string
		most, status                int
		at                          string
	}{
		{"POST", "/v1/admit", `{"request_id":"`, `"}`, 255, 200, "body.request_id"},
		{"POST", "/v1/admit", `{"subject":{"user":"`, `"}}`, 255, 200, "body.subject.user"},
		{"POST", "/v1/admit", `{"attributes":{"`, `":1}}`, 64, 200, "body.attributes"},
		{"POST", "/v1/admit", `{"attributes":{"x":"`, `"}}`, 1024, 200, "body.attributes.x"},
		{"POST", attempts, `{"ip":"192.0.2.7","name":"`, `"}`, 256, 200, "body.name"},
		{"POST", attempts, `{"ip":"192.0.2.7","name":"ann","request_id":"`, `"}`, 255, 200, "body.request_id"},
		{"POST", "/v1/semaphores/report/permits", `{"holder":"`, `"}`, 255, 201, "body.holder"},
		{"POST", "/v1/semaphores/report/permits", `{"holder":"a","request_id":"`, `"}`, 255, 201, "body.request_id"},
		{"PUT", "/v1/bans/user/ann", `{"for_ms":1,"reason":"`, `"}`, 255, 200, "body.reason"},
		{"PUT", "/v1/rooms/door", first + `,"title":"`, `"` + last, 200, 200, "body.title"},
		{"PUT", "/v1/rooms/door", first + `,"continue_url":"/`, `"` + last, 1999, 200, "body.continue_url"},
		{"POST", "/v1/rooms/door/message", `{"message":"`, `"}`, 500, 200, "body.message"},
		{"POST", "/v1/rooms/door/hold", `{"reason":"`, `"}`, 255, 200, "body.reason"},
		{"POST", "/v1/rooms/door/resume", `{"request_id":"`, `"}`, 255, 200, "body.request_id"},
		{"POST", "/v1/orders/" + orderID.String() + "/payment", `{"outcome":"captured","reference":"`, `"}`, 255, 200, "body.reference"},
	} {
		answers(t, h, tt.method, tt.path, tt.before+strings.Repeat("é", tt.most)+tt.after, tt.status)
		w := answers(t, h, tt.method, tt.path, tt.before+strings.Repeat("é", tt.most+1)+tt.after, 422)
		if p := problemIn(t, w); len(p.Errors) == 0 || p.Errors[0].Location != tt.at {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.path, w.Body, tt.at)
		}
	}
}
