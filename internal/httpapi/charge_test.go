package httpapi

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
)

func TestRateLimitFields(t *testing.T) {
	b := setup(t)
	b.gate.decision = admission.Decision{Admitted: true, Rules: []admission.Verdict{
		{Rule: "orders", Public: "orders", Window: time.Minute, Limit: 10, Admitted: true, Remaining: 3, ResetAfter: 20*time.Second + time.Millisecond},
		{Rule: "shadow", Window: time.Minute, Limit: 1, Shadow: true, Reason: admission.RateLimited},
		{Rule: "office", Window: time.Minute, Limit: rules.Unlimited, Admitted: true, Remaining: rules.Unlimited},
		{Rule: "fine", Window: 100 * time.Millisecond, Limit: 5, Admitted: true, Remaining: 5},
	}}
	for _, path := range []string{placePath, "/v1/orders/" + orderID.String()} {
		method, body := "GET", ""
		if path == placePath {
			method, body = "POST", `{"item":"shoe"}`
		}
		h := call(b.Public(), method, path, body).Header()
		if got := h.Get("RateLimit-Policy"); got != `"orders";q=10;w=60, "fine";q=5;w=1` {
			t.Errorf("%s: %s", path, got)
		}
		if got := h.Get("RateLimit"); got != `"orders";r=3;t=21, "fine";r=5` {
			t.Errorf("%s: %s", path, got)
		}
	}
	if h := call(b.Public(), "GET", "/v1/sales/flash", "").Header(); h["Ratelimit"] != nil || h["Ratelimit-Policy"] != nil {
		t.Errorf("a document that caches keep: %v", h)
	}
	b.gate.decision.Rules = nil
	if h := call(b.Public(), "GET", "/v1/orders/"+orderID.String(), "").Header(); h["Ratelimit"] != nil || h["Ratelimit-Policy"] != nil {
		t.Errorf("%v", h)
	}
}

func TestRateLimited(t *testing.T) {
	b := setup(t)
	b.gate.decision = admission.Decision{Action: rules.Deny, Reason: admission.RateLimited, RetryAfter: 20*time.Second + 1, Rules: []admission.Verdict{
		{Rule: "orders", Public: "orders", Window: time.Minute, Limit: 10, Reason: admission.RateLimited, RetryAfter: 20*time.Second + 1, ResetAfter: time.Minute},
		{Rule: "orders", Window: time.Second, Limit: 1, Reason: admission.RateLimited, RetryAfter: time.Second, ResetAfter: time.Second},
		{Rule: "wide", Public: "wide", Window: time.Hour, Limit: 100, Admitted: true, Remaining: 50, ResetAfter: time.Hour},
		{Rule: "shadow", Public: "shadow", Window: time.Hour, Limit: 1, Shadow: true, Reason: admission.RateLimited},
	}}
	w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
	p := problemIn(t, w)
	h := w.Header()
	if p.Status != 429 || p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || p.Reason != "rate_limited" || fmt.Sprint(p.ViolatedPolicies) != "[orders]" || h.Get("Retry-After") != "21" {
		t.Errorf("%+v %v", p, h)
	}
	if got := h.Get("RateLimit-Policy"); got != `"orders";q=10;w=60, "orders";q=1;w=1, "wide";q=100;w=3600` {
		t.Error(got)
	}
	if got := h.Get("RateLimit"); got != `"orders";r=0;t=21, "orders";r=0;t=1` {
		t.Error(got)
	}
	if strings.Contains(strings.Join(b.orders.calls, " "), "reserve") {
		t.Error("reserved")
	}
	// Reads are refused as well if a rule applies.
	if p := problemIn(t, call(b.Public(), "GET", "/v1/sales/flash", "")); p.Status != 429 {
		t.Errorf("%+v", p)
	}
	if w := call(b.Internal(), "GET", "/v1/sales/flash", ""); w.Code != 200 {
		t.Errorf("internal reading is charged: %d", w.Code)
	}
	if w := call(b.Public(), "GET", "/livez", ""); w.Code != 200 {
		t.Errorf("health is charged: %d", w.Code)
	}

	b.gate.decision = admission.Decision{Reason: admission.CostAboveLimit, Rules: []admission.Verdict{{Rule: "none", Reason: admission.CostAboveLimit, Window: time.Minute}}}
	w = call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
	if p := problemIn(t, w); p.Status != 429 || p.Reason != "cost_above_limit" || p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || w.Header().Get("Retry-After") != "" {
		t.Errorf("%+v %v", p, w.Header())
	}
}

func TestStoreFailure(t *testing.T) {
	b := setup(t)
	b.gate.decision = admission.Decision{Admitted: true, Degraded: true} // the rules are open
	if w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`); w.Code != 202 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.gate.err = fmt.Errorf("%w: %w", admission.ErrUnavailable, errors.New("dial tcp")) // one is closed
	w := call(b.Public(), "POST", placePath, `{"item":"shoe"}`)
	if p := problemIn(t, w); p.Status != 503 || p.Reason != "store_unavailable" || w.Header().Get("Retry-After") != "1" || !strings.Contains(b.logged.String(), "dial tcp") {
		t.Errorf("%+v %v, logged %s", p, w.Header(), b.logged)
	}
}

// TestChargedSubject checks what the rules get about a request, and which senders are trusted.
func TestChargedSubject(t *testing.T) {
	for _, tt := range []struct {
		name, remote, forwarded string
		user, tier, ip          string
	}{
		{"loopback", "127.0.0.1:1", "", "ada", "gold", "127.0.0.1"},
		{"loopback that hands on", "127.0.0.1:1", "198.51.100.9", "", "", "127.0.0.1"},
		{"loopback over IPv6", "[::1]:1", "", "ada", "gold", "::1"},
		{"trusted proxy", "10.1.2.3:1", "1.1.1.1, 198.51.100.9", "ada", "gold", "198.51.100.9"},
		{"stranger", "192.0.2.7:1", "127.0.0.1", "", "", "192.0.2.7"},
		{"stranger over IPv6", "[2001:db8::7]:1", "::1", "", "", "2001:db8::7"},
	} {
		b := setup(t)
		call(b.Public(), "POST", placePath, `{"item":"shoe"}`, "Remote", tt.remote, "X-Forwarded-For", tt.forwarded, "X-User-Tier", "gold")
		want := admission.Request{User: tt.user, Tier: tt.tier, IP: netip.MustParseAddr(tt.ip), Route: placePath, Method: "POST"}
		if got := b.gate.asked[0]; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if got := b.orders.requests[0].User; got != tt.user {
			t.Errorf("%s: ordered for %q", tt.name, got)
		}
	}
}
