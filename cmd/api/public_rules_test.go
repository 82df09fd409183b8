package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/serve"
	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// Buyers learn nothing about rules that are not public, neither from a refusal nor from a rule that cannot decide their requests.
func TestBuyersLearnNoInternalRule(t *testing.T) {
	rules := writeRules(t, `
version: 1
rules:
  - {name: secret-limit, match: {route: "/v1/sales/*/orders", method: POST}, subject: user, limit: 1, window: 1h}
  - {name: told-as-it-is, match: {route: "/v1/sales/*/orders", method: POST}, subject: user, limit: 1, window: 1h, public: true}
  - {name: secret-name, match: {route: "/v1/sales/*/orders", method: POST}, subject: user, limit: 1, window: 1h, public: one-an-hour}
  - {name: secret-cost, match: {route: "/v1/sales/concert"}, subject: user, limit: 5, window: 1h, cost: size}
`)
	p := start(t, filepath.Join(t.TempDir(), "data"), io.Discard, "-rules-file", rules)
	putOnSale(t, p, "concert", 5)
	ann := []string{"X-User-ID", "ann"}
	post := func(body string) servetest.Answer {
		return servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", body, ann...)
	}
	// A buyer without an order gets the reason: the quota would be exceeded.
	if a := post(`{"item":"ticket","quantity":2}`); a.Status != http.StatusConflict || !bytes.Contains(a.Body, []byte("more than the quota of 1")) || bytes.Contains(a.Body, []byte("order_id")) {
		t.Fatal(a)
	}
	a := post(`{"item":"ticket"}`)
	var problem struct {
		Violated []string `json:"violated-policies"`
	}
	if a.Into(t, &problem); a.Status != http.StatusTooManyRequests || strings.Join(problem.Violated, " ") != "told-as-it-is one-an-hour" {
		t.Errorf("%v", a)
	}
	if !strings.Contains(a.Header.Get("RateLimit"), `"secret-limit";r=0`) {
		t.Errorf("RateLimit: %s", a.Header.Get("RateLimit"))
	}
	a = servetest.Call("GET", p.URL("public")+"/v1/sales/concert", "", ann...)
	if a.Status != http.StatusInternalServerError || bytes.Contains(a.Body, []byte("secret")) || bytes.Contains(a.Body, []byte("size")) {
		t.Errorf("a rule that cannot decide: %v", a)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		if strings.Contains(p.Output(), "it is the cost of rule secret-cost") {
			return servetest.Answer{Status: http.StatusOK}
		}
		return servetest.Answer{Body: []byte(p.Output())}
	})
}

// The linter's list of public routes equals the routes that a rule for all routes refuses on the public listener.
func TestTheLinterKnowsThePublicRoutes(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "data"), io.Discard, "-rules-file", writeRules(t, "version: 1\nrules: [{name: shut, match: {route: /**}, algorithm: direct, action: deny}]"))
	putOnHold(t, p, "spring", "")
	parameters := strings.NewReplacer("{sale}", "spring", "{id}", "00000000-0000-8000-8000-000000000000", "{reason}", "banned")
	warned := func(path string) bool {
		rule := fmt.Sprintf("version: 1\nrules: [{name: r, match: {route: %q}, subject: device, limit: 1, window: 1m}]", regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "*"))
		set, err := rules.Parse("rules.yaml", []byte(rule))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(fmt.Sprint(serve.LintRules(set, true)), "requests on this route of Tidegate's never have device")
	}
	closed, open := map[string]bool{}, map[string]bool{}
	for _, listener := range []string{"public", "internal"} {
		var described struct{ Paths map[string]map[string]any }
		servetest.Call("GET", p.URL(listener)+"/openapi.json", "").Into(t, &described)
		for path, methods := range described.Paths {
			for method := range methods {
				body := ""
				if strings.HasSuffix(path, "/orders") && method == "post" {
					body = `{"item":"shoe"}`
				}
				a := servetest.Call(strings.ToUpper(method), p.URL("public")+parameters.Replace(path), body, "X-User-ID", "ann", "Idempotency-Key", "k")
				of := open
				if a.Status == http.StatusForbidden {
					of = closed
				}
				of[path] = true
			}
		}
	}
	for path := range closed {
		if !warned(path) {
			t.Errorf("%s asks the rules, and the linter does not know it", path)
		}
		delete(open, path)
	}
	for path := range open {
		if warned(path) {
			t.Errorf("the linter calls %s public, and no rule closes it to buyers", path)
		}
	}
	if len(closed) < 5 || len(open) < 20 {
		t.Errorf("closed %v, open %v", closed, open)
	}
}
