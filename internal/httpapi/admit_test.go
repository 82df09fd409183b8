package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

// realGate gives a bed an in-memory gate with these rules.
func realGate(t testing.TB, set string) func(*Config) {
	t.Helper()
	parsed, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n"+set))
	if err != nil {
		t.Fatal(err)
	}
	gate, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), parsed, admission.Options{Secret: []byte("sixteen bytes or more"), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Gate = gate }
}

const twoAMinute = "  - {name: api, match: {route: \"/v1/**\"}, subject: [caller], limit: 2, window: 1m}\n"

func TestAdmitAnswers(t *testing.T) {
	b := setup(t)
	b.gate.decision = admission.Decision{
		Action: rules.Deny, Reason: admission.RateLimited, Rule: "api", Limit: 10, RetryAfter: time.Millisecond + 1, ResetAfter: time.Minute,
		At: noon, Version: "abc", Rules: []admission.Verdict{
			{
				Rule: "api", Algorithm: store.SlidingLog, Window: time.Minute, Limit: 10, Action: rules.Deny, Reason: admission.RateLimited,
				RetryAfter: 1, ResetAfter: time.Minute,
			},
			{Rule: "free", Algorithm: store.GCRA, Window: time.Second, Limit: rules.Unlimited, Remaining: rules.Unlimited, Admitted: true, Action: rules.Allow, Shadow: true},
		},
	}
	w := call(b.Internal(), "POST", "/v1/admit", `{"subject":{"user":"ann"}}`)
	want := `{"admitted":false,"action":"deny","reason":"rate_limited","rule":"api","limit":10,"remaining":0,"retry_after_ms":2,"reset_after_ms":60000,"rules":[` +
		`{"rule":"api","algorithm":"sliding_log","limit":10,"window_ms":60000,"admitted":false,"action":"deny","reason":"rate_limited","remaining":0,"retry_after_ms":1,"reset_after_ms":60000,"shadow":false},` +
		`{"rule":"free","algorithm":"gcra","limit":null,"window_ms":1000,"admitted":true,"action":"allow","remaining":null,"retry_after_ms":0,"reset_after_ms":0,"shadow":true}],` +
		`"version":"abc","at":"2026-11-21T11:00:00.123Z","degraded":false}` + "\n"
	if w.Code != 200 || w.Body.String() != want || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v\n%s\n%s", w.Code, w.Header(), w.Body, want)
	}
	// Header fields about the caller must not appear in the service's own response.
	if h := w.Header(); h.Get("RateLimit") != "" || h.Get("Retry-After") != "" {
		t.Errorf("%v", h)
	}
	b.gate.decision = admission.Decision{Admitted: true, Action: rules.Allow, Limit: rules.Unlimited, Remaining: rules.Unlimited, Degraded: true}
	w = call(b.Internal(), "POST", "/v1/admit", `{}`)
	want = `{"admitted":true,"action":"allow","reason":"","rule":"","limit":null,"remaining":null,"retry_after_ms":0,"reset_after_ms":0,"rules":[],"version":"","at":null,"degraded":true}` + "\n"
	if w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAdmitAsks(t *testing.T) {
	b := setup(t)
	w := call(b.Internal(), "POST", "/v1/admit", `{"subject":{"user":"ann","ip":"::ffff:192.0.2.1","device":"d","session":"s"},"cost":7,"request_id":"r-1",
		"attributes":{"route":"/v1/x","method":"post","tier":"gold","plan":"big","size":12.50,"beta":true}}`)
	want := admission.Request{
		User: "ann", IP: netip.MustParseAddr("192.0.2.1"), Device: "d", Session: "s", Tier: "gold", Route: "/v1/x", Method: "POST", Cost: 7, ID: "r-1",
		Attributes: map[string]string{"plan": "big", "size": "12.5", "beta": "true"},
	}
	if got := b.gate.asked[0]; w.Code != 200 || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%d %s: %+v", w.Code, w.Body, got)
	}
	for mode, did := range map[string]string{
		`"mode":"check"`: "check", `"mode":"refund","request_id":"r-1"`: "refund", `"mode":"reset"`: "reset ", `"mode":"reset","rule":"api"`: "reset api",
	} {
		b.gate.did = nil
		if w := call(b.Internal(), "POST", "/v1/admit", `{"subject":{"user":"ann"},`+mode+`}`); w.Code != 200 || fmt.Sprint(b.gate.did) != "["+did+"]" {
			t.Errorf("%s: %d %s: %q", mode, w.Code, w.Body, b.gate.did)
		}
	}
}

func TestAdmitHostile(t *testing.T) {
	b := setup(t)
	for _, tt := range []struct{ at, body string }{
		{"body.subject.ip", `{"subject":{"ip":"192.0.2"}}`},
		{"body.subject.ip", `{"subject":{"ip":""}}`},
		{"body.subject.ip", `{"subject":{"ip":"192.0.2.1:80"}}`},
		{"body.subject.ip", `{"subject":{"ip":7}}`},
		{"body.subject.user", `{"subject":{"user":7}}`},
		{"body.subject.user", `{"subject":{"user":"` + strings.Repeat("x", 256) + `"}}`},
		{"body.subject.usr", `{"subject":{"usr":"ann"}}`},
		{"body.subject", `{"subject":"ann"}`},
		{"body.colour", `{"subject":{},"colour":1}`},
		{"body.Subject", `{"Subject":{}}`},
		{"body.cost", `{"cost":0}`},
		{"body.cost", `{"cost":1000001}`},
		{"body.cost", `{"cost":1.5}`},
		{"body.cost", `{"cost":"1"}`},
		{"body.mode", `{"mode":"peek"}`},
		{"body.request_id", `{"mode":"refund"}`},
		{"body.rule", `{"rule":"api"}`},
		{"body.request_id", `{"request_id":""}`},
		{"body.request_id", `{"request_id":"` + strings.Repeat("x", 256) + `"}`},
		{"body.attributes.user", `{"attributes":{"user":"ann"}}`},
		{"body.attributes.ip", `{"attributes":{"ip":"192.0.2.1"}}`},
		{"body.attributes.plan", `{"attributes":{"plan":null}}`},
		{"body.attributes.plan", `{"attributes":{"plan":["gold"]}}`},
		{"body.attributes.plan", `{"attributes":{"plan":{"a":1}}}`},
		{"body.attributes.plan", `{"attributes":{"plan":"` + strings.Repeat("x", 1025) + `"}}`},
		{"body", `{"attributes":{"size":1e999}}`},
		{"body.attributes", `{"attributes":{"":1}}`},
		{"body.attributes", `{"attributes":{"` + strings.Repeat("x", 65) + `":1}}`},
		{"body.attributes", `{"attributes":["plan"]}`},
		{"body", `[]`},
		{"body", `null`},
		{"body", `{`},
		{"body.attributes", `{"attributes":{` + manyNames(65)},
		{"body.attributes.a", `{"attributes":{"a":1,"a":1}}`},
	} {
		w := call(b.Internal(), "POST", "/v1/admit", tt.body)
		if p := problemIn(t, w); p.Status != 422 || len(p.Errors) == 0 || p.Errors[0].Location != tt.at {
			t.Errorf("%.80s: %+v", tt.body, p)
		}
	}
	if p := problemIn(t, call(b.Internal(), "POST", "/v1/admit", "")); p.Status != 422 {
		t.Errorf("no body: %+v", p)
	}
	if p := problemIn(t, call(b.Internal(), "POST", "/v1/admit", `{"subject":{"user":"`+strings.Repeat("x", 64<<10)+`"}}`)); p.Status != 413 {
		t.Errorf("huge: %+v", p)
	}
	if len(b.gate.asked) != 0 {
		t.Errorf("the gate was asked: %+v", b.gate.asked)
	}
	for err, want := range map[error]string{
		admission.ErrUnavailable: "503 store_unavailable",
		fmt.Errorf("%w: %w", admission.ErrUnavailable, errors.New("dial tcp")): "503 store_unavailable",
		admission.ErrUnknownRequest:                                         "404 unknown_request",
		failure.New(admission.ErrUnknownRule, "%q", "api"):                  "404 unknown_rule",
		failure.New(admission.ErrInvalidRequest, "attribute size is \"x\""): "422 invalid attribute size is \"x\"",
		errors.New("of some other kind, with a password"):                   "500 internal",
	} {
		b.gate.err = err
		p := problemIn(t, call(b.Internal(), "POST", "/v1/admit", `{}`))
		got := fmt.Sprint(p.Status, " ", p.Reason)
		for _, e := range p.Errors {
			got += " " + e.Message
		}
		if got != want {
			t.Errorf("%v: %s", err, got)
		}
	}
}

func manyNames(n int) string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf(`"n%d":1`, i))
	}
	return strings.Join(names, ",") + "}}"
}

type decided struct {
	Admitted   bool
	Action     string
	Reason     string
	Remaining  *int
	RetryAfter int64 `json:"retry_after_ms"`
	Problem    *problem.Problem
}

func admitted(t *testing.T, b *bed, body string) (d decided) {
	t.Helper()
	w := call(b.Internal(), "POST", "/v1/admit", body)
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != 200 {
		t.Fatalf("%s: %d %s", body, w.Code, w.Body)
	}
	return d
}

// TestAdmitRequestID: a repeated request is charged once, and gets the same answer.
func TestAdmitRequestID(t *testing.T) {
	b := setup(t, realGate(t, twoAMinute))
	const ask = `{"subject":{"user":"ann"},"attributes":{"route":"/v1/x"},"request_id":"%s","mode":"%s"}`
	for range 3 {
		if d := admitted(t, b, fmt.Sprintf(ask, "first", "charge")); !d.Admitted || *d.Remaining != 1 {
			t.Fatalf("%+v", d)
		}
	}
	if d := admitted(t, b, fmt.Sprintf(ask, "second", "charge")); !d.Admitted || *d.Remaining != 0 {
		t.Fatalf("%+v", d)
	}
	if d := admitted(t, b, fmt.Sprintf(ask, "third", "charge")); d.Admitted || d.Action != "deny" || d.Reason != "rate_limited" || d.RetryAfter <= 0 {
		t.Fatalf("%+v", d)
	}
	if d := admitted(t, b, fmt.Sprintf(ask, "third", "check")); d.Admitted {
		t.Fatalf("%+v", d)
	}
}

// TestAdmitAfterAHangUp: a counted decision is recorded, even if the caller has disconnected.
func TestAdmitAfterAHangUp(t *testing.T) {
	b := setup(t, realGate(t, twoAMinute))
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	const one = `{"subject":{"user":"ann"},"attributes":{"route":"/v1/x"}}`
	for path, body := range map[string]string{"/v1/admit": one, "/v1/admit/batch": `{"requests":[` + one + `]}`} {
		r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
		r.RemoteAddr, r.Host = "127.0.0.1:40000", "localhost"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		b.Internal().ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"admitted":true`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if d := admitted(t, b, one); d.Admitted {
		t.Errorf("%+v", d)
	}
}

func TestAdmitRefundAndReset(t *testing.T) {
	b := setup(t, realGate(t, twoAMinute))
	const ask = `{"subject":{"user":"ann"},"attributes":{"route":"/v1/x"},"request_id":"%s","mode":"%s"}`
	admitted(t, b, fmt.Sprintf(ask, "first", "charge"))
	admitted(t, b, fmt.Sprintf(ask, "second", "charge"))
	for range 2 { // the second time there is nothing left to refund, which is no error
		if d := admitted(t, b, fmt.Sprintf(ask, "first", "refund")); !d.Admitted || *d.Remaining != 1 {
			t.Fatalf("%+v", d)
		}
	}
	w := call(b.Internal(), "POST", "/v1/admit", fmt.Sprintf(ask, "never", "refund"))
	if p := problemIn(t, w); p.Status != 404 || p.Reason != "unknown_request" {
		t.Errorf("%+v", p)
	}
	if d := admitted(t, b, `{"subject":{"user":"ann"},"attributes":{"route":"/v1/x"},"mode":"reset","rule":"api"}`); *d.Remaining != 2 {
		t.Errorf("%+v", d)
	}
	w = call(b.Internal(), "POST", "/v1/admit", `{"subject":{"user":"ann"},"mode":"reset","rule":"none"}`)
	if p := problemIn(t, w); p.Status != 404 || p.Reason != "unknown_rule" {
		t.Errorf("%+v", p)
	}
}

// TestResetNeedsTheOperator: only operators may reset counts.
func TestResetNeedsTheOperator(t *testing.T) {
	b := setup(t, withTokens(t))
	for token, want := range map[string]int{"admit-token-of-tests": 403, "operator-token-of-tests": 200, "metrics-token-of-tests": 403, "": 401} {
		for _, path := range []string{"/v1/admit", "/v1/admit/batch"} {
			body := `{"subject":{"user":"ann"},"mode":"reset"}`
			if path != "/v1/admit" {
				body = `{"requests":[` + body + `]}`
			}
			b.gate.did = nil
			w := call(b.Internal(), "POST", path, body, "X-Tidegate-Token", token)
			if w.Code != want || (len(b.gate.did) == 1) != (want == 200) {
				t.Errorf("%s with %q: %d %s", path, token, w.Code, w.Body)
			}
		}
	}
	if w := call(b.Internal(), "POST", "/v1/admit", `{"mode":"refund","request_id":"x"}`, "X-Tidegate-Token", "admit-token-of-tests"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestDecidedIsTold: Decided is called for charges only.
func TestDecidedIsTold(t *testing.T) {
	told := map[string]int{}
	b := setup(t, func(c *Config) {
		c.Decided = func(r *admission.Request, d *admission.Decision, _ time.Duration) {
			told[r.User+" "+r.Route+" "+string(d.Action)]++
		}
	})
	call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
	call(b.Internal(), "POST", "/v1/admit", `{"subject":{"user":"eve"},"attributes":{"route":"/x"}}`)
	call(b.Internal(), "POST", "/v1/admit", `{"mode":"check"}`)
	call(b.Internal(), "GET", "/v1/authz", "", "X-Forwarded-Uri", "/y", "X-Forwarded-Method", "GET")
	b.gate.err = admission.ErrUnavailable
	call(b.Internal(), "POST", "/v1/admit", `{}`)
	if want := map[string]int{"ada " + placePath + " allow": 1, "eve /x allow": 1, "ada /y allow": 1}; !maps.Equal(told, want) {
		t.Errorf("%v", slices.Collect(maps.Keys(told)))
	}
}
