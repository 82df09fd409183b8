package admission_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
)

const (
	sec = time.Second
	ms  = time.Millisecond
	µs  = time.Microsecond
)

// A step is a request at a time, and the decision that should follow.
type step struct {
	at         time.Duration
	cost       int
	admitted   bool
	remaining  int
	retryAfter time.Duration
	resetAfter time.Duration
}

func TestOneWindow(t *testing.T) {
	tables := []struct {
		name, limit string
		steps       []step
	}{
		{"a window begins with each unit", "limit: 3, window: 1s", []step{
			{0, 1, true, 2, 0, 1000 * ms},
			{400 * ms, 1, true, 1, 0, 1000 * ms},
			{800 * ms, 1, true, 0, 0, 1000 * ms},
			{900 * ms, 1, false, 0, 100 * ms, 900 * ms},
			{999*ms + 999*µs, 1, false, 0, 1 * µs, 800*ms + 1*µs}, // still full at the last µs
			{1000 * ms, 1, true, 0, 0, 1000 * ms},                 // the first has gone
			{1000 * ms, 1, false, 0, 400 * ms, 1000 * ms},
			{1400 * ms, 1, true, 0, 0, 1000 * ms},
			{5000 * ms, 1, true, 2, 0, 1000 * ms},
		}},
		{"a denial costs nothing, however often", "limit: 1, window: 1s", []step{
			{0, 1, true, 0, 0, 1000 * ms},
			{100 * ms, 1, false, 0, 900 * ms, 900 * ms},
			{500 * ms, 1, false, 0, 500 * ms, 500 * ms},
			{999 * ms, 1, false, 0, 1 * ms, 1 * ms},
			{1000 * ms, 1, true, 0, 0, 1000 * ms},
		}},
		{"a cost waits for as many units as it lacks", "limit: 5, window: 1s", []step{
			{0, 2, true, 3, 0, 1000 * ms},
			{100 * ms, 2, true, 1, 0, 1000 * ms},
			{200 * ms, 3, false, 1, 800 * ms, 900 * ms}, // lacks 2, the units of 0
			{200 * ms, 5, false, 1, 900 * ms, 900 * ms}, // lacks 4
			{200 * ms, 1, true, 0, 0, 1000 * ms},
			{1000 * ms, 2, true, 0, 0, 1000 * ms},
		}},
		{"units of the same time count each", "limit: 3, window: 1s", []step{
			{0, 1, true, 2, 0, 1000 * ms},
			{0, 1, true, 1, 0, 1000 * ms},
			{0, 1, true, 0, 0, 1000 * ms},
			{0, 1, false, 0, 1000 * ms, 1000 * ms},
		}},
		{"a clock that steps back ends no unit early", "limit: 2, window: 10s", []step{
			{8000 * ms, 1, true, 1, 0, 10_000 * ms},
			{7000 * ms, 1, true, 0, 0, 10_000 * ms}, // counted at 8s
			{7500 * ms, 1, false, 0, 10_000 * ms, 10_000 * ms},
			{17_999 * ms, 1, false, 0, 1 * ms, 1 * ms},
			{18_000 * ms, 1, true, 1, 0, 10_000 * ms},
		}},
		{"a rule's cost multiplies", "limit: 6, window: 1s, cost: 2", []step{
			{0, 2, true, 2, 0, 1000 * ms},
			{0, 1, true, 0, 0, 1000 * ms},
			{0, 1, false, 0, 1000 * ms, 1000 * ms},
		}},
		{"a limit of thousands at once", "limit: 20000, window: 1s, algorithm: sliding_log", []step{
			{0, 12_345, true, 7655, 0, 1000 * ms},
			{500 * ms, 7656, false, 7655, 500 * ms, 500 * ms},
			{500 * ms, 7655, true, 0, 0, 1000 * ms},
			{1000 * ms, 12_346, false, 12_345, 500 * ms, 500 * ms},
			{1000 * ms, 12_345, true, 0, 0, 1000 * ms},
		}},
	}
	eachStore(t, func(t *testing.T, open opener) {
		for _, table := range tables {
			t.Run(table.name, func(t *testing.T) {
				clk := newClock()
				g := gate(t, open(clk), namespace(), "- {name: r, subject: user, "+table.limit+"}")
				for i, s := range table.steps {
					clk.At(s.at)
					d := charge(t, g, admission.Request{User: "ann", Cost: s.cost})
					got := step{s.at, s.cost, d.Admitted, d.Remaining, d.RetryAfter, d.ResetAfter}
					if got != s {
						t.Fatalf("step %d:\n got %+v\nwant %+v", i, got, s)
					}
				}
			})
		}
	})
}
