package httpapi

import (
	"errors"
	"maps"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/internal/httpapi/live"
	"github.com/tidegate/tidegate/internal/livepage"
)

// answersOf returns the counts of a recorder, by answer.
func answersOf(t *testing.T, r *livepage.Recorder) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "tidegate_answers_total" {
			for _, m := range f.Metric {
				counts[m.Label[0].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	return counts
}

// TestEveryAnswerIsCountedOnce: every request to which a rule applies is counted once, even if the rules could not decide, or a
// solution admitted it.
func TestEveryAnswerIsCountedOnce(t *testing.T) {
	const admit = `{"subject":{"user":"ada"},"attributes":{"route":"/x","method":"GET"}}`
	recorder := livepage.NewRecorder()
	b := setup(t, func(c *Config) { c.Live = &live.Options{Recorder: recorder} })
	call(b.Public(), "GET", "/v1/sales/flash", "") // no rule applies to it
	b.gate.decision.Rules = []admission.Verdict{{Rule: "any", Action: rules.Allow}}
	want := map[string]float64{}
	ask := func(answer string) {
		t.Helper()
		call(b.Public(), "GET", "/v1/sales/flash", "")
		call(b.Internal(), "POST", "/v1/admit", admit)
		call(b.Public(), "POST", placePath, orderBody)
		want[answer] += 3
		if got := answersOf(t, recorder); !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	ask("admitted")
	b.gate.decision = admission.Decision{Reason: admission.RateLimited, Action: rules.Deny}
	ask("rate_limited")
	b.gate.err = errors.Join(admission.ErrUnavailable)
	ask("store_unavailable")

	solved := livepage.NewRecorder()
	b = setup(t, withCaptcha(t, "- {name: prove, algorithm: direct, action: challenge}"), func(c *Config) {
		c.Live = &live.Options{Recorder: solved}
		c.Captcha = &oddCaptcha{Provider: c.Captcha}
	})
	if w := call(b.Public(), "GET", "/v1/sales/flash", "", "X-Captcha", "x"); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if got := answersOf(t, solved); !maps.Equal(got, map[string]float64{"admitted": 1}) {
		t.Errorf("%v of one request that was solved", got)
	}
}
