package algorithm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/internal/algorithm"
	"github.com/tidegate/tidegate/admission/store"
)

// start is far from 1970, and at an odd µs.
const start = 1_800_000_000_000_001

const second = 1_000_000

var minutes = &store.Calendar{Unit: "minute", Zone: time.UTC}

// tallies are one of each kind, for costs of 1.
func tallies() map[string]*store.Tally {
	window := store.Window{Length: 7 * time.Second}
	return map[string]*store.Tally{
		"log":       {Algorithm: store.SlidingLog, Limit: 5, Window: window, Cost: 1},
		"counter":   {Algorithm: store.SlidingCounter, Limit: 5, Window: window, Cost: 1},
		"fixed":     {Algorithm: store.FixedWindow, Limit: 5, Window: window, Cost: 1},
		"calendar":  {Algorithm: store.FixedWindow, Limit: 5, Window: store.Window{Calendar: minutes}, Cost: 1},
		"gcra":      {Algorithm: store.GCRA, Limit: 5, Burst: 3, Window: window, Cost: 1},
		"two_stage": {Algorithm: store.TwoStage, Limit: 3, Window: window, Cost: 1, Base: &store.Base{Limit: 2, Window: store.Window{Length: 11 * time.Second}}},
	}
}

func costing(t *store.Tally, cost int) *store.Tally {
	other := *t
	other.Cost = cost
	return &other
}

// TestLaws: what all algorithms have in common. A request is charged where Read finds room; the times of a Result are true to the µs; a refund
// leaves what was before.
func TestLaws(t *testing.T) {
	for name, tally := range tallies() {
		most, charged := algorithm.Capacity(tally), 0
		for seed := range uint64(300) {
			random := rand.New(rand.NewPCG(seed, 1))
			var s algorithm.State
			now := int64(start)
			for step := range 40 {
				now += random.Int64N(3 * second)
				cost := costing(tally, 1+random.IntN(3))
				failf := func(format string, args ...any) {
					t.Helper()
					t.Fatalf("%s, seed %d, step %d: %s", name, seed, step, fmt.Sprintf(format, args...))
				}
				before := s.Read(now, cost)
				if again := s.Read(now, cost); again != before {
					failf("reading changed %+v to %+v", before, again)
				}
				if before.Remaining < 0 || before.Remaining > most || before.ResetAfter < 0 || before.RetryAfter < 0 {
					failf("%+v", before)
				}
				switch before.Reason {
				case store.RateLimited:
					if before.RetryAfter == 0 || s.Read(now+before.RetryAfter-1, cost).Reason == "" {
						failf("there is room before %d", before.RetryAfter)
					}
					if r := s.Read(now+before.RetryAfter, cost); r.Reason != "" {
						failf("there is no room after %d: %+v", before.RetryAfter, r)
					}
				case "":
					if before.RetryAfter != 0 {
						failf("%+v", before)
					}
					after, stamp := s.Charge(now, cost)
					charged++
					read := s.Read(now, tally)
					if after.Remaining != read.Remaining || after.ResetAfter != read.ResetAfter || read.Remaining != before.Remaining-cost.Cost {
						failf("%+v, then charged %d: %+v, then read: %+v", before, cost.Cost, after, read)
					}
					if random.IntN(3) == 0 {
						s.Refund(now, tally, cost.Cost, stamp)
						if r := s.Read(now, cost); r != before && name != "counter" || r.Remaining != before.Remaining { // the counter's span stays
							failf("refunded: %+v, want %+v", r, before)
						}
					}
				default:
					failf("%+v", before)
				}
				if r := s.Read(now, tally); r.ResetAfter > 0 {
					if rest := s.Read(now+r.ResetAfter, tally); rest.Remaining != most || rest.ResetAfter != 0 {
						failf("after %d: %+v", r.ResetAfter, rest)
					}
					if rest := s.Read(now+r.ResetAfter-1, tally); rest.Remaining >= most || rest.ResetAfter != 1 {
						failf("before %d: %+v", r.ResetAfter, rest)
					}
				} else if r.Remaining != most {
					failf("nothing counts, and %+v", r)
				}
			}
		}
		if charged < 600 {
			t.Errorf("%s: only %d charges", name, charged)
		}
	}
}

// TestBounds: how much each algorithm admits to a caller who asks all the time.
func TestBounds(t *testing.T) {
	const pause = 10_000
	for name, want := range map[string]struct{ window, most, total int64 }{ // at most so many in any window; so many in 77 s
		"log":       {7 * second, 5, 55},
		"counter":   {7 * second, 5, 46}, // after five, four a span: parts of units count as whole ones
		"fixed":     {7 * second, 10, 55},
		"calendar":  {60 * second, 10, 10},
		"gcra":      {7 * second, 8, 57},
		"two_stage": {7 * second, 7, 33 + 14},
	} {
		tally := tallies()[name]
		var s algorithm.State
		var admitted []int64
		for now := int64(start); now < start+77*second; now += pause {
			if s.Read(now, tally).Reason == "" {
				s.Charge(now, tally)
				admitted = append(admitted, now)
			}
		}
		first, most := 0, 0
		for i, at := range admitted {
			for admitted[first] <= at-want.window {
				first++
			}
			most = max(most, i-first+1)
		}
		if most > int(want.most) || len(admitted) < int(want.total)-1 || len(admitted) > int(want.total)+1 {
			t.Errorf("%s: %d in a window, %d in all; want at most %d, and %d", name, most, len(admitted), want.most, want.total)
		}
	}
}

func TestCapacity(t *testing.T) {
	for name, want := range map[string]int{"log": 5, "counter": 5, "fixed": 5, "calendar": 5, "gcra": 3, "two_stage": 5} {
		if got := algorithm.Capacity(tallies()[name]); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestCostAboveLimit: what never fits is not something to wait for.
func TestCostAboveLimit(t *testing.T) {
	for name, tally := range tallies() {
		fits := map[string]int{"gcra": 3, "two_stage": 3}[name]
		if fits == 0 {
			fits = 5
		}
		var s algorithm.State
		if r := s.Read(start, costing(tally, fits)); r.Reason != "" {
			t.Errorf("%s: %+v", name, r)
		}
		if r := s.Read(start, costing(tally, fits+1)); r.Reason != store.CostAboveLimit || r.RetryAfter != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		closed := *tally
		closed.Limit = 0
		if r := s.Read(start, &closed); r.Reason != store.CostAboveLimit || r.Remaining != 0 {
			t.Errorf("%s with limit 0: %+v", name, r)
		}
	}
}

// TestTwoStages: a cost that fits in one stage only waits for that one, and refunds go to the stage that counted.
func TestTwoStages(t *testing.T) {
	tally := tallies()["two_stage"]
	var s algorithm.State
	_, base := s.Charge(start, costing(tally, 2))       // the base, until 11 s
	_, log := s.Charge(start+second, costing(tally, 3)) // the log, until 8 s
	if r := s.Read(start+2*second, tally); r.RetryAfter != 6*second || r.ResetAfter != 9*second || r.Remaining != 0 {
		t.Errorf("both are full: %+v", r)
	}
	if r := s.Read(start+2*second, costing(tally, 3)); r.RetryAfter != 6*second {
		t.Errorf("above the base's limit: %+v", r)
	}
	wide := *costing(tally, 4)
	wide.Base = &store.Base{Limit: 4, Window: tally.Base.Window}
	if r := s.Read(start+2*second, &wide); r.RetryAfter != 9*second {
		t.Errorf("above the log's limit: %+v", r)
	}
	if got := s.Ends(tally); got != start+11*second {
		t.Errorf("it ends at %d", got-start)
	}
	if base >= 0 || log <= 0 {
		t.Errorf("stamps %d, %d", base, log)
	}
	s.Refund(start+2*second, tally, 1, log)
	if r := s.Read(start+2*second, costing(tally, 2)); r.Remaining != 1 || r.Reason != store.RateLimited {
		t.Errorf("one unit of the log is back: %+v", r)
	}
	s.Refund(start+2*second, tally, 2, base)
	if r := s.Read(start+2*second, costing(tally, 2)); r.Remaining != 3 || r.Reason != "" || r.ResetAfter != 6*second {
		t.Errorf("the base is back: %+v", r)
	}
}

// TestRejected: refused requests count beyond the limit, and no further than has an effect.
func TestRejected(t *testing.T) {
	for name, retry := range map[string]int64{"log": 7 * second, "fixed": 6 * second, "gcra": 1_400_000, "two_stage": 7 * second} {
		tally := tallies()[name]
		var s algorithm.State
		if name == "two_stage" {
			s.Charge(start, costing(tally, 2)) // rejections count in the second stage
		} else {
			s.CountRejected(start, tally)
		}
		s.CountRejected(start+second, costing(tally, 1_000))
		s.CountRejected(start+second, tally)
		if r := s.Read(start+second, tally); r.Remaining != 0 || r.Reason != store.RateLimited || r.RetryAfter != retry {
			t.Errorf("%s: %+v, want to retry after %d", name, r, retry)
		}
	}
	counter := tallies()["counter"]
	var s algorithm.State
	const span = start/(7*second) + 1 // begins after start
	s.CountRejected(span*7*second, costing(counter, 10))
	if r := s.Read(span*7*second, counter); r.RetryAfter != 7*second+4_200_000 { // four of ten are left after six tenths of the next span
		t.Errorf("counter: %+v", r)
	}
	for range 3 {
		s.CountRejected(span*7*second, costing(counter, store.MaxLimit))
	}
	if r := s.Read(span*7*second, counter); r.Reason != store.RateLimited || r.ResetAfter != 14*second {
		t.Errorf("counter, overflowed: %+v", r)
	}
}

// TestStrikes: the refusal that reaches the limit strikes, and counting starts anew.
func TestStrikes(t *testing.T) {
	strikes := &store.Strikes{Limit: 3, Window: 7 * time.Second}
	var s algorithm.State
	for _, step := range []struct {
		after   int64
		n       int
		struck  bool
		counted int
		ends    int64
	}{
		{0, 1, false, 1, 7 * second},
		{second, 1, false, 2, 8 * second},
		{7 * second, 1, false, 2, 14 * second},
		{7*second + 1, 1, true, 0, 0},
		{7*second + 2, 2, false, 2, 14*second + 2},
		{9 * second, 5, true, 0, 0},
		{9 * second, 3, true, 0, 0},
	} {
		struck, counted, ends := s.Strike(start+step.after, strikes, step.n)
		if step.ends != 0 {
			step.ends += start
		}
		if struck != step.struck || counted != step.counted || ends != step.ends {
			t.Errorf("%+v: %v, %d, %d", step, struck, counted, ends-start)
		}
	}
}

// TestErase: the newest units go.
func TestErase(t *testing.T) {
	tally := tallies()["log"]
	var s algorithm.State
	for i := range int64(4) {
		s.Charge(start+i*second, tally)
	}
	s.Erase(costing(tally, 2))
	if r := s.Read(start+3*second, tally); r.Remaining != 3 || r.ResetAfter != 5*second {
		t.Errorf("two of four are left: %+v", r)
	}
	if got := s.Ends(tally); got != start+8*second {
		t.Errorf("it ends at %d", got-start)
	}
	s.Erase(costing(tally, 9))
	if r := s.Read(start+3*second, tally); r.Remaining != 5 || r.ResetAfter != 0 || s.Ends(tally) != 0 {
		t.Errorf("nothing is left: %+v", r)
	}
	s.Charge(start+4*second, costing(tally, 5))
	lowered := *costing(tally, 1)
	lowered.Limit = 2
	s.Erase(&lowered) // of the newest two
	if r := s.Read(start+4*second, &lowered); r.Remaining != 1 || r.Reason != "" {
		t.Errorf("one of two is left: %+v", r)
	}
}

// TestLoweredLimit: what was counted under a higher limit counts on.
func TestLoweredLimit(t *testing.T) {
	for name, want := range map[string]algorithm.Result{
		"log":   {Reason: store.RateLimited, RetryAfter: 5 * second, ResetAfter: 6 * second}, // when the third of four has gone
		"fixed": {Reason: store.RateLimited, RetryAfter: 3 * second, ResetAfter: 3 * second},
		"gcra":  {Reason: store.RateLimited, RetryAfter: 500_000, ResetAfter: 4 * second},
	} {
		tally := tallies()[name]
		if name == "gcra" {
			tally.Burst = 5
		}
		var s algorithm.State
		for i := range int64(4) {
			s.Charge(start+i*second, tally)
		}
		lowered := *tally
		lowered.Limit = 2
		if name == "gcra" {
			lowered.Burst = 2
		}
		if r := s.Read(start+4*second, &lowered); r != want {
			t.Errorf("%s: %+v, want %+v", name, r, want)
		}
	}
}

// TestClockSetBack: a step of up to a second changes nothing; after a longer one no unit counts for longer than it would if it was counted now.
func TestClockSetBack(t *testing.T) {
	for name, tally := range tallies() {
		full := algorithm.Capacity(tally)
		parts := []int{full}
		if name == "two_stage" {
			parts = []int{2, 3}
		}
		fill := func() (s algorithm.State) {
			for _, n := range parts {
				s.Charge(start, costing(tally, n))
			}
			return s
		}
		s := fill()
		if r := s.Read(start-second, tally); r.Reason != store.RateLimited {
			t.Errorf("%s, a small step: %+v", name, r)
		}
		s = fill()
		const back = start - 3600*second
		r := s.Read(back, tally)
		longest := map[string]int64{"calendar": 60 * second, "counter": 14 * second, "two_stage": 11 * second}[name]
		if longest == 0 {
			longest = 7 * second
		}
		if r.Reason != store.RateLimited || r.ResetAfter > longest || r.RetryAfter > longest || r.RetryAfter == 0 {
			t.Errorf("%s, a long step: %+v", name, r)
		}
		if after := s.Read(back+longest, tally); after.Remaining != full {
			t.Errorf("%s, after the longest time: %+v", name, after)
		}
	}
}

// TestForeignStamps: a refund of what no longer counts, or never did, takes nothing.
func TestForeignStamps(t *testing.T) {
	for name, tally := range tallies() {
		var s algorithm.State
		_, old := s.Charge(start, tally)
		later := int64(start) + 100*second
		s.Charge(later, costing(tally, 2))
		before := s.Read(later, tally)
		s.Refund(later, tally, 1, old)
		s.Refund(later, tally, 1, 0)
		if r := s.Read(later, tally); r != before {
			t.Errorf("%s: %+v, want %+v", name, r, before)
		}
	}
}

// TestClockSetBackALittle: how far a clock may be set back without an effect, to the µs.
func TestClockSetBackALittle(t *testing.T) {
	all := tallies()
	const minute = (start/(60*second) + 1) * 60 * second // begins after start
	for name, tt := range map[string]struct {
		tally                *store.Tally
		costs                []int
		at, now, later       int64
		resetAfter, andLater int64
	}{
		// The span of the calendar is the next one, and the step is small.
		"calendar, within a second": {all["calendar"], []int{5}, minute + 200_000, minute - 500_000, 0, 60*second + 500_000, 0},
		"calendar, a second":        {all["calendar"], []int{5}, minute, minute - second, 0, 61 * second, 0},
		"calendar, more":            {all["calendar"], []int{5}, minute, minute - second - 1, 0, second + 1, 0},
		"calendar, two spans":       {all["calendar"], []int{5}, minute + 60*second, minute - second, 0, 121 * second, 0},
		"calendar, three spans":     {all["calendar"], []int{5}, minute + 120*second, minute - second, 0, second, 0},
		// The arrival time is ahead by at most two windows, or it drains from now on.
		"gcra, two windows": {all["gcra"], []int{3}, start, start - 9_800_000, second, 4_200_000, 4_200_000},
		"gcra, more":        {all["gcra"], []int{3}, start, start - 9_800_001, second, 4_200_000, 3_200_000},
		// The span of the counter begins at most a second from now.
		"counter, a second": {all["counter"], []int{2, 2}, (minute/(7*second) + 1) * 7 * second, (minute/(7*second)+1)*7*second - second, 0, 14 * second, 0},
		"counter, more":     {all["counter"], []int{2, 2}, (minute/(7*second) + 1) * 7 * second, (minute/(7*second)+1)*7*second - second - 1, 0, 8*second + 1, 0},
		"log, a second":     {all["log"], []int{5}, start, start - second, 0, 7 * second, 0},
	} {
		var s algorithm.State
		for _, cost := range tt.costs {
			s.Charge(tt.at, costing(tt.tally, cost))
		}
		if r := s.Read(tt.now, tt.tally); r.ResetAfter != tt.resetAfter {
			t.Errorf("%s: %+v, want to reset after %d", name, r, tt.resetAfter)
		}
		if r := s.Read(tt.now+tt.later, tt.tally); tt.later > 0 && r.ResetAfter != tt.andLater {
			t.Errorf("%s, later: %+v, want to reset after %d", name, r, tt.andLater)
		}
	}
	// Two spans of a counter become one, with what both count.
	counter := all["counter"]
	var s algorithm.State
	s.Charge(minute, costing(counter, 2))
	s.Charge(minute+7*second, costing(counter, 1))
	if r := s.Read(minute-3600*second, counter); r.Remaining != 2 {
		t.Errorf("the counter's spans: %+v", r)
	}
}

// TestAWindowThatWasEmptied: after a refund of all units the next unit opens a window.
func TestAWindowThatWasEmptied(t *testing.T) {
	fixed := tallies()["fixed"]
	var s algorithm.State
	_, stamp := s.Charge(start, fixed)
	s.Refund(start+second, fixed, 1, stamp)
	if r, _ := s.Charge(start+2*second, fixed); r.ResetAfter != 7*second {
		t.Errorf("%+v", r)
	}
}
