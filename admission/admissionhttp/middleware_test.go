package admissionhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/internal/httpproblem"
)

type fake struct {
	decision admission.Decision
	err      error
	asked    []admission.Request
}

func (f *fake) Charge(_ context.Context, req admission.Request) (admission.Decision, error) {
	f.asked = append(f.asked, req)
	return f.decision, f.err
}

func byRoute(r *http.Request) (admission.Request, error) {
	return admission.Request{Route: r.URL.Path, Method: r.Method}, nil
}

// serve asks the middleware in front of a handler that answers 204.
func serve(f *fake, requestOf func(*http.Request) (admission.Request, error)) (w *httptest.ResponseRecorder, passed *http.Request) {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed = r
		w.WriteHeader(http.StatusNoContent)
	})
	w = httptest.NewRecorder()
	Middleware(f, requestOf)(next).ServeHTTP(w, httptest.NewRequest("POST", "/x", nil))
	return w, passed
}

func TestAdmitted(t *testing.T) {
	f := &fake{decision: admission.Decision{Admitted: true, Rule: "api", Rules: []admission.Verdict{
		{Rule: "api", Limit: 10, Window: time.Minute, Admitted: true, Remaining: 9, ResetAfter: time.Second},
	}}}
	w, passed := serve(f, byRoute)
	if w.Code != 204 || w.Header().Get("RateLimit") != `"api";r=9;t=1` || w.Header().Get("RateLimit-Policy") != `"api";q=10;w=60` || w.Header().Get("Cache-Control") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if d, ok := DecisionOf(passed.Context()); !ok || d.Rule != "api" {
		t.Errorf("%+v %v", d, ok)
	}
	if got := f.asked[0]; got.Route != "/x" || got.Method != "POST" {
		t.Errorf("%+v", got)
	}
	if _, ok := DecisionOf(context.Background()); ok {
		t.Error("a decision of nobody")
	}
}

func TestRefused(t *testing.T) {
	secret := errors.New("dial tcp 10.1.2.3")
	for name, tt := range map[string]struct {
		decision      admission.Decision
		err           error
		status        int
		reason, retry string
		violated      string
	}{
		"limited": {
			decision: admission.Decision{Reason: admission.RateLimited, RetryAfter: 1, Rules: []admission.Verdict{
				{Rule: "a", Public: "reads"}, {Rule: "a", Public: "reads"}, {Rule: "b", Public: "b", Shadow: true}, {Rule: "c", Public: "c", Admitted: true}, {Rule: "d"},
			}},
			status: 429, reason: "rate_limited", retry: "1", violated: "[reads]",
		},
		"too costly": {decision: admission.Decision{Reason: admission.CostAboveLimit}, status: 429, reason: "cost_above_limit"},
		"banned":     {decision: admission.Decision{Reason: admission.Banned, RetryAfter: time.Hour}, status: 403, reason: "banned", retry: "3600"},
		"forbidden":  {decision: admission.Decision{Reason: admission.Forbidden}, status: 403, reason: "forbidden"},
		"challenged": {decision: admission.Decision{Reason: admission.CaptchaRequired}, status: 403, reason: "captcha_required"},
		"no store":   {err: fmt.Errorf("%w: %w", admission.ErrUnavailable, secret), status: 503, reason: "store_unavailable", retry: "1"},
		"invalid":    {err: fmt.Errorf("%w: %w", admission.ErrInvalidRequest, secret), status: 400, reason: "invalid"},
	} {
		w, passed := serve(&fake{decision: tt.decision, err: tt.err}, byRoute)
		var p httpproblem.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h := w.Header()
		if w.Code != tt.status || p.Status != tt.status || p.Reason != tt.reason || p.Type == "" || p.Title == "" || h.Get("Retry-After") != tt.retry ||
			h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" || passed != nil {
			t.Errorf("%s: %d %v %+v", name, w.Code, h, p)
		}
		if got := fmt.Sprint(p.ViolatedPolicies); tt.violated != "" && got != tt.violated {
			t.Errorf("%s: %s", name, got)
		}
	}
	f := &fake{}
	w, passed := serve(f, func(*http.Request) (admission.Request, error) { return admission.Request{}, secret })
	if w.Code != 400 || passed != nil || len(f.asked) != 0 {
		t.Errorf("%d %+v", w.Code, f.asked)
	}
}

// More of the limit is free within a window, even if all of it is free only later.
func TestTIsNotAboveTheWindow(t *testing.T) {
	for _, rule := range []string{
		"algorithm: sliding_counter, limit: 2, window: 10s",
		"algorithm: gcra, limit: 2, window: 10s, burst: 9",
		"algorithm: base, limit: 2, window: 10s, base: {limit: 2, window: 1h}",
	} {
		set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules:\n  - {name: r, subject: ip, "+rule+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		store := memorystore.New(memorystore.Options{Now: func() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }})
		gate, err := admission.NewWithStore(store, set, admission.Options{Secret: []byte("16 random bytes or more")})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			d, err := gate.Charge(t.Context(), admission.Request{IP: netip.MustParseAddr("192.0.2.1")})
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{}
			WriteFields(h, &d)
			_, after, _ := strings.Cut(h.Get("RateLimit"), ";t=")
			if seconds, err := strconv.Atoi(after); err != nil || seconds < 1 || seconds > 10 {
				t.Errorf("%s: RateLimit %s", rule, h.Get("RateLimit"))
			}
			if again, _ := strconv.Atoi(h.Get("Retry-After")); !d.Admitted && time.Duration(again)*time.Second < d.RetryAfter {
				t.Errorf("%s: Retry-After %d is before %v", rule, again, d.RetryAfter)
			}
		}
	}
}

// A client that retries at Retry-After finds room in every window that was reported.
func TestRetryAfterIsNotEarlierThanAnyT(t *testing.T) {
	for _, tt := range []struct {
		decision     admission.Decision
		retry, limit string
	}{
		{admission.Decision{RetryAfter: time.Millisecond}, "1", ""},
		{admission.Decision{RetryAfter: time.Second}, "1", ""},
		{admission.Decision{RetryAfter: time.Second + 1}, "2", ""},
		{admission.Decision{}, "", ""},
		{
			admission.Decision{RetryAfter: time.Second, Rules: []admission.Verdict{{Rule: "a", RetryAfter: time.Second}, {Rule: "b", RetryAfter: 2*time.Second + 1}}},
			"3", `"a";r=0;t=1, "b";r=0;t=3`,
		},
		{ // one window will never fit
			admission.Decision{Rules: []admission.Verdict{{Rule: "a"}, {Rule: "b", RetryAfter: time.Second}}},
			"", `"a";r=0, "b";r=0;t=1`,
		},
		{
			admission.Decision{RetryAfter: time.Second, Rules: []admission.Verdict{{Rule: "a", RetryAfter: time.Second}, {Rule: "s", RetryAfter: time.Hour, Shadow: true}}},
			"1", `"a";r=0;t=1`,
		},
	} {
		h := http.Header{}
		WriteFields(h, &tt.decision)
		if h.Get("Retry-After") != tt.retry || h.Get("RateLimit") != tt.limit {
			t.Errorf("%+v: %v", tt.decision, h)
		}
	}
}
