package metrics_test

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/internal/metrics"
	"github.com/tidegate/tidegate/orders"
)

func TestVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New("test")
		invariants := func() map[string]string {
			got := scrape(t, m)
			maps.DeleteFunc(got, func(name, _ string) bool { return !strings.Contains(name, "invariant") })
			return got
		}
		if got := invariants(); len(got) != 0 {
			t.Errorf("%v before anybody looked", got)
		}
		m.Verified("flash", []orders.Check{{Invariant: "I3", OK: true}, {Invariant: "I6", Breaches: 4}}, time.Now())
		m.Verified("flash", []orders.Check{{Invariant: "I3", OK: true}, {Invariant: "I6", Breaches: 3}, {Invariant: "I8", Breaches: 2}}, time.Now())
		m.Verified("spring", []orders.Check{{Invariant: "I3", OK: true}, {Invariant: "I6", OK: true}}, time.Now())
		want := map[string]string{
			`tidegate_invariant_violations{sale="flash"}`:                   "5",
			`tidegate_broken_invariants{invariant="I6",sale="flash"}`:       "3",
			`tidegate_broken_invariants{invariant="I8",sale="flash"}`:       "2",
			`tidegate_invariant_violations{sale="spring"}`:                  "0",
			`tidegate_invariants_verified_timestamp_seconds{sale="flash"}`:  "9.466848e+08", // the bubble's first moment
			`tidegate_invariants_verified_timestamp_seconds{sale="spring"}`: "9.466848e+08",
		}
		if got := invariants(); !maps.Equal(got, want) {
			t.Errorf("%v", got)
		}
		if troubles := m.Degraded(); !slices.Equal(troubles, []string{"invariant I6 of sale flash does not hold", "invariant I8 of sale flash does not hold"}) {
			t.Errorf("%q", troubles)
		}
		time.Sleep(5*time.Minute + 1)
		if troubles := m.Degraded(); len(troubles) != 0 { // also while nobody scrapes
			t.Errorf("%q although nobody looks any more", troubles)
		}
		if got := invariants(); len(got) != 0 {
			t.Errorf("%v although nobody looks any more", got)
		}
	})
}

// A process without decisions still exports its state.
func TestWithoutAGate(t *testing.T) {
	w := httptest.NewRecorder()
	metrics.New("test").Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, "\ngo_goroutines ") || strings.Contains(body, "tidegate_admission") {
		t.Errorf("%d %s", w.Code, body)
	}
}
