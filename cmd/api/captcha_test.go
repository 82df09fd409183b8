package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

const challengingRules = `
version: 1
rules:
  - {name: hurdle, match: {method: POST}, subject: user, limit: 1, window: 1h, on_exceed: challenge}
`

// End to end: a rule demands a challenge, the challenge is fetched from the URL in the refusal, and its solution admits one order.
func TestChallengedOrder(t *testing.T) {
	folder := t.TempDir()
	rules := filepath.Join(folder, "rules.yaml")
	if err := os.WriteFile(rules, []byte(challengingRules), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, filepath.Join(folder, "data"), io.Discard, "-rules-file", rules)
	putOnSale(t, p, "concert", 3)
	post := func(key, captcha string) servetest.Answer {
		return servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "X-User-ID", "ann", "Idempotency-Key", key, "X-Captcha", captcha)
	}
	// Who holds no order is asked: the first attempts of a user without one are charged.
	challenged := func(a servetest.Answer) string {
		t.Helper()
		var problem struct {
			Reason    string
			Challenge struct{ Provider, URL string }
		}
		if a.Into(t, &problem); a.Status != http.StatusForbidden || problem.Reason != "captcha_required" || problem.Challenge.Provider != "altcha" {
			t.Fatal(a)
		}
		return p.URL("public") + problem.Challenge.URL
	}
	if a := servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket","quantity":2}`, "X-User-ID", "ann"); a.Status != http.StatusConflict {
		t.Fatal(a) // more than the quota; it was charged
	}
	token := servetest.Solve(t, challenged(post("a", "")))
	if a := post("a", token); a.Status != http.StatusAccepted {
		t.Fatal(a)
	}
	if a := post("a", ""); a.Status != http.StatusAccepted { // a repetition comes before all rules
		t.Error(a)
	}
	a := servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "X-User-ID", "bob", "X-Captcha", token)
	if a.Status != http.StatusAccepted { // nobody has asked him for one
		t.Error(a)
	}
	challenged(servetest.Call("POST", p.URL("public")+"/v1/orders/00000000-0000-8000-8000-000000000000/cancel", "", "X-User-ID", "ann", "X-Captcha", token))

	metrics := string(servetest.Call("GET", p.URL("internal")+"/metrics", "").Body)
	for _, line := range []string{
		`tidegate_captcha_solved_total{provider="altcha"} 1`, `tidegate_captcha_refused_total{cause="used",provider="altcha"} 1`, "tidegate_captcha_fallback 0",
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	// The route has a separate limit.
	last := 0
	for range 301 {
		last = servetest.Call("GET", p.URL("public")+"/v1/captcha/challenge?purpose=order", "").Status
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("the 62nd challenge: %d", last)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
