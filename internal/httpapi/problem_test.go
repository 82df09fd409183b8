package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/login"
	"github.com/tidegate/tidegate/orders"
)

// problemIn decodes a problem and checks what all problems have in common.
func problemIn(t *testing.T, w *httptest.ResponseRecorder) problem.Problem {
	t.Helper()
	var p problem.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	h := w.Header()
	if p.Status != w.Code || p.Title == "" || p.Type == "" || h.Get("Content-Type") != "application/problem+json" ||
		h.Get("Cache-Control") != "no-store" || h.Get("X-Request-Id") == "" {
		t.Fatalf("not a whole problem: %d %v %s", w.Code, h, w.Body)
	}
	return p
}

func TestOrderRefusals(t *testing.T) {
	const order = "/v1/sales/flash/orders"
	for _, tt := range []struct {
		out          orders.Outcome
		err          error
		status       int
		kind, reason string
		retry, with  string // Retry-After, and a part of the body
	}{
		{out: orders.Outcome{Reason: orders.ReasonSoldOut}, status: 409, kind: "/problems/sold-out", reason: "sold_out"},
		{out: orders.Outcome{Reason: orders.ReasonNotEnough, Free: 3}, status: 409, kind: "/problems/not-enough", reason: "not_enough", with: `"free":3`},
		{out: orders.Outcome{Reason: orders.ReasonNotEnough}, status: 409, kind: "/problems/not-enough", reason: "not_enough", with: `"free":0`},
		{
			out: orders.Outcome{Reason: orders.ReasonQuotaPerBuyer, Order: orders.Order{ID: orderID}}, status: 409, kind: "/problems/quota-per-buyer",
			reason: "quota_per_buyer", with: `"order_id":"` + orderID.String() + `"`,
		},
		{out: orders.Outcome{Reason: orders.ReasonQuotaPerBuyer}, status: 409, kind: "/problems/quota-per-buyer", reason: "quota_per_buyer"},
		{out: orders.Outcome{Reason: orders.ReasonNotStarted, RetryAfter: 1}, status: 409, kind: "/problems/sale-not-started", reason: "not_started", retry: "1"},
		{
			out: orders.Outcome{Reason: orders.ReasonNotStarted, RetryAfter: time.Minute + time.Millisecond}, status: 409,
			kind: "/problems/sale-not-started", reason: "not_started", retry: "61",
		},
		{out: orders.Outcome{Reason: orders.ReasonNotStarted, RetryAfter: time.Minute}, status: 409, kind: "/problems/sale-not-started", reason: "not_started", retry: "60"},
		{out: orders.Outcome{Reason: orders.ReasonPaused}, status: 409, kind: "/problems/sale-paused", reason: "paused"},
		{out: orders.Outcome{Reason: orders.ReasonEnded}, status: 409, kind: "/problems/sale-ended", reason: "ended"},
		{out: orders.Outcome{Reason: orders.ReasonKeyReused}, status: 422, kind: "/problems/idempotency-key-reused", reason: "key_reused"},
		{out: orders.Outcome{Reason: orders.ReasonAtCapacity}, status: 503, kind: "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", reason: "at_capacity", retry: "1"},
		{out: orders.Outcome{Reason: orders.ReasonRecovering}, status: 503, kind: "/problems/unavailable", reason: "recovering", retry: "2"},
		{err: orders.ErrUserRequired, status: 401, kind: "/problems/unauthenticated", reason: "unauthenticated"},
		{err: orders.ErrKeyRequired, status: 422, kind: "/problems/idempotency-key-required", reason: "key_required"},
		{err: orders.ErrUnknownSale, status: 404, kind: "/problems/not-found", reason: "unknown_sale"},
		{err: orders.ErrUnknownItem, status: 404, kind: "/problems/not-found", reason: "unknown_item"},
		{err: orders.ErrUnknownOrder, status: 404, kind: "/problems/not-found", reason: "unknown_order"},
		{err: failure.New(orders.ErrForceRequired, "sale s would end"), status: 409, kind: "/problems/force-required", reason: "force_required", with: `"detail":"sale s would end; ?force=true does it"`},
		{err: failure.New(orders.ErrConflict, "stock shrinks"), status: 409, kind: "/problems/conflict", reason: "conflict", with: "stock shrinks"},
		{err: fmt.Errorf("reserve: %w", orders.ErrUnavailable), status: 503, kind: "/problems/unavailable", reason: "store_unavailable", retry: "1"},
		{err: orders.ErrRecovering, status: 503, kind: "/problems/unavailable", reason: "recovering", retry: "2"},
		{err: admission.ErrUnavailable, status: 503, kind: "/problems/unavailable", reason: "store_unavailable", retry: "1"},
		{
			err: fmt.Errorf("%w: %w: no route to host", login.ErrUnavailable, captcha.ErrProvider), status: 503, kind: "/problems/unavailable",
			reason: "store_unavailable", retry: "1", with: `"detail":"The CAPTCHA's provider gives no usable answer."`,
		},
		{err: context.DeadlineExceeded, status: 503, kind: "/problems/unavailable", reason: "store_unavailable", retry: "1"},
		{
			err: &orders.Error{Kind: orders.ErrInvalid, Field: "Key", Detail: "is odd"}, status: 422, kind: "/problems/invalid", reason: "invalid",
			with: `"errors":[{"location":"header.Idempotency-Key","message":"is odd"}]`,
		},
		{err: errors.New("pq: password authentication failed"), status: 500, kind: "/problems/internal", reason: "internal", with: `"instance":"urn:`},
	} {
		for _, quick := range []bool{true, false} {
			b := setup(t)
			b.orders.reserve, b.orders.err = tt.out, tt.err
			body := `{"item":"shoe"}`
			if !quick {
				body = `{"item":"sh\u006fe"}`
			}
			w := call(b.Public(), "POST", order, body)
			p := problemIn(t, w)
			if p.Status != tt.status || p.Type != tt.kind || p.Reason != tt.reason || w.Header().Get("Retry-After") != tt.retry ||
				!strings.Contains(w.Body.String(), tt.with) {
				t.Errorf("%v %v: %v %s", tt.out.Reason, tt.err, w.Header(), w.Body)
			}
			if (p.Status == 401) != (w.Header().Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%d with %v", p.Status, w.Header())
			}
			if strings.Contains(w.Body.String(), "pq:") {
				t.Errorf("leaks: %s", w.Body)
			}
			level := map[string]string{"internal": "level=ERROR", "store_unavailable": "level=WARN"}[p.Reason]
			if log := b.logged.String(); strings.Count(log, "\n") != strings.Count(level, "=") ||
				level != "" && !(strings.Contains(log, level) && strings.Contains(log, w.Header().Get("X-Request-Id"))) {
				t.Errorf("%d logged: %s", p.Status, log)
			}
		}
	}
}

// TestKindsAreComplete: every refusal reason of package orders has a row, and every row a page.
func TestKindsAreComplete(t *testing.T) {
	b := setup(t)
	for _, k := range problem.Kinds {
		p := problem.New(k.Reason)
		if strings.HasPrefix(p.Type, "https://iana.org/") {
			continue
		}
		w := call(b.Public(), "GET", p.Type, "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), k.Reason) || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d", p.Type, w.Code)
		}
	}
	if p := problemIn(t, call(b.Public(), "GET", "/problems/nonsense", "")); p.Status != 404 || p.Reason != "unknown_problem" {
		t.Errorf("%+v", p)
	}
	if p := problem.New("a word nobody knows"); p.Status != 500 || p.Cause == nil {
		t.Errorf("%+v", p)
	}
	for _, r := range []admission.Reason{admission.RateLimited, admission.CostAboveLimit, admission.Banned, admission.Forbidden, admission.CaptchaRequired} {
		if problem.New(string(r)).Cause != nil {
			t.Errorf("no problem for %q", r)
		}
	}
	var source string
	for _, file := range []string{"../../orders/reason.go", "../../waitingroom/refusal.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	for line := range strings.Lines(source) {
		if _, word, ok := strings.Cut(line, " = \""); ok && strings.Contains(line, "Reason") {
			word, _, _ = strings.Cut(word, `"`)
			if problem.New(word).Cause != nil && word != "recovered_late" && word != "duplicate" {
				t.Errorf("no problem for %q", word)
			}
		}
	}
}
