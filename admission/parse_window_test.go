package admission_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store"
)

// Windows of one rule may count by different algorithms, each with what belongs to it; one zone is for all that have a calendar.
func TestWindowsOfOneRule(t *testing.T) {
	g := quickGate(t, memory(), `
- name: r
  subject: user
  algorithm: sliding_counter
  zone: Asia/Shanghai
  windows:
    - {limit: 5, window: 10s, algorithm: sliding_log}
    - {limit: 50, window: 10s, algorithm: gcra, burst: 7}
    - {limit: 4, window: 1m, algorithm: base, base: {limit: 30, window: day}}
    - {limit: 100, window: month, algorithm: fixed_window}
    - {limit: 20, window: 10m}
  overrides:
    - match: {plan: gold}
      windows:
        - {limit: 11, window: month}
        - {limit: 12, window: 1m}
        - {limit: 13, window: 10m}
        - {limit: 14, window: 10s, algorithm: sliding_log}
        - {limit: 15, window: 10s, algorithm: gcra}
`)
	window := func(limit int, algorithm store.Algorithm, length time.Duration) admission.Verdict {
		return admission.Verdict{Limit: limit, Algorithm: algorithm, Window: length}
	}
	for _, c := range []struct {
		plan string
		want []admission.Verdict
	}{
		{"", []admission.Verdict{
			window(5, store.SlidingLog, 10*time.Second), window(50, store.GCRA, 10*time.Second),
			window(4, store.TwoStage, time.Minute), window(100, store.FixedWindow, 30*24*time.Hour),
			window(20, store.SlidingCounter, 10*time.Minute),
		}},
		{"gold", []admission.Verdict{
			window(14, store.SlidingLog, 10*time.Second), window(15, store.GCRA, 10*time.Second),
			window(12, store.TwoStage, time.Minute), window(11, store.FixedWindow, 30*24*time.Hour),
			window(13, store.SlidingCounter, 10*time.Minute),
		}},
	} {
		req := with("plan", c.plan)
		req.User = "ann"
		got := check(t, g, req).Rules
		if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(admission.Verdict{}, "Rule", "Action", "Admitted", "Remaining", "ResetAfter")); diff != "" {
			t.Errorf("plan %q (-want +got):\n%s", c.plan, diff)
		}
	}
}
