package main

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// Buyers are told of no rule that is not public, neither by a refusal nor by a rule that cannot decide their requests.
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
	// He holds nothing, and is told what is wrong.
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
