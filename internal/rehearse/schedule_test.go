package rehearse

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawOptions(t *rapid.T) Options {
	o := Options{
		Stock: 1, Items: make([]string, rapid.IntRange(1, 4).Draw(t, "items")),
		Buyers: rapid.IntRange(1, 500).Draw(t, "buyers"), Rate: rapid.Float64Range(0.5, 20000).Draw(t, "rate"),
		Ramp:           time.Duration(rapid.IntRange(0, 20000).Draw(t, "ramp_ms")) * time.Millisecond,
		OrdersPerBuyer: rapid.IntRange(1, 3).Draw(t, "orders"), QuantityMax: rapid.IntRange(1, 4).Draw(t, "quantity"),
		DuplicateClicks: rapid.Float64Range(0, 1).Draw(t, "duplicates"), HangUps: rapid.Float64Range(0, 1).Draw(t, "hang-ups"),
		Keyless: rapid.Float64Range(0, 1).Draw(t, "keyless"), Shares: WholeLife(), Seed: rapid.Uint64().Draw(t, "seed"),
	}
	return o.withDefaults()
}

func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		clicks := plan(o)
		if !slices.Equal(clicks, plan(o)) {
			t.Fatal("the same options plan differently")
		}
		if !slices.IsSortedFunc(clicks, func(a, b click) int { return int(a.at - b.at) }) {
			t.Fatal("not in order of time")
		}
		curve := wave{rate: o.Rate, ramp: o.Ramp}
		arrived, sameKey, otherKey := 0, 0, 0
		firsts := map[[2]int]click{}
		for _, c := range clicks {
			if c.at < 0 || c.item >= len(o.Items) || c.quantity < 1 || c.quantity > o.QuantityMax {
				t.Fatalf("impossible click %+v", c)
			}
			switch at := [2]int{c.buyer, c.order}; {
			case c.again:
				if f, ok := firsts[at]; !ok || f.item != c.item || f.quantity != c.quantity || c.at < f.at || c.hangUp >= 0 {
					t.Fatalf("double click %+v of %+v", c, f)
				}
				if c.second {
					otherKey++
				} else {
					sameKey++
				}
			case firsts[at] != click{}:
				t.Fatalf("%+v is planned twice", c)
			default:
				firsts[at] = c
			}
			if !c.again && c.order == 0 {
				arrived++
				// The i-th arrival lies within the i-th step of the curve.
				if want := curve.arrivedBy(c.at); math.Abs(want-float64(arrived)) > 1.01 {
					t.Fatalf("%d arrived by %v, the curve says %.2f", arrived, c.at, want)
				}
				if c.at > o.Duration+time.Microsecond {
					t.Fatalf("buyer at %v, after %v", c.at, o.Duration)
				}
			}
		}
		if arrived != o.Buyers || len(firsts) != o.Buyers*o.OrdersPerBuyer || sameKey-otherKey < 0 || sameKey-otherKey > 1 {
			t.Fatalf("%d buyers, %d orders, %d and %d double clicks", arrived, len(firsts), sameKey, otherKey)
		}
	})
}

func TestWaveIsInvertible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := wave{rate: rapid.Float64Range(0.1, 1e5).Draw(t, "rate"), ramp: time.Duration(rapid.Int64Range(0, 6e10).Draw(t, "ramp"))}
		n := rapid.Float64Range(0, 1e6).Draw(t, "n")
		if at := w.momentOf(n); at < 1<<62 && math.Abs(w.arrivedBy(at)-n) > 1e-3*math.Max(n, 1) {
			t.Fatalf("%v arrivals by %v, and by then %v", n, at, w.arrivedBy(at))
		}
	})
}

func TestTwoOfThreeGiveTheThird(t *testing.T) {
	for _, tt := range []struct{ given, want Options }{
		{Options{Buyers: 1000, Rate: 100}, Options{Buyers: 1000, Rate: 100, Duration: 10 * time.Second}},
		{Options{Buyers: 1000, Rate: 100, Ramp: 4 * time.Second}, Options{Buyers: 1000, Rate: 100, Duration: 12 * time.Second}},
		{Options{Rate: 100, Duration: 12 * time.Second, Ramp: 4 * time.Second}, Options{Buyers: 1000, Rate: 100, Duration: 12 * time.Second}},
		{Options{Buyers: 1000, Duration: 12 * time.Second, Ramp: 4 * time.Second}, Options{Buyers: 1000, Rate: 100, Duration: 12 * time.Second}},
	} {
		if got := tt.given.withDefaults(); got.Buyers != tt.want.Buyers || got.Rate != tt.want.Rate || got.Duration != tt.want.Duration {
			t.Errorf("%+v gives %d buyers at %v in %v", tt.given, got.Buyers, got.Rate, got.Duration)
		}
	}
}

func TestFatesAreDrawnByTheirShares(t *testing.T) {
	o := Options{Stock: 1, Buyers: 20000, Rate: 1000, Hold: 900 * time.Millisecond, Shares: Shares{Paid: 0.4, Cancelled: 0.3, Races: 0.2, Reorders: 0.5, Early: 0.3, Late: 0.2, Repeated: 0.1, Doubled: 0.6}}.withDefaults()
	n := map[string]float64{}
	for _, c := range plan(o) {
		f := c.plan
		n[[]string{"left", "paid", "cancelled", "contested"}[f.ending]]++
		switch {
		case f.ending != isPaid && (f.repeat || f.double || f.moment != afterCommit), f.ending != isCancelled && f.reorder, f.moment != atExpiry && (f.after < 0 || f.after > o.Hold/3):
			t.Fatalf("impossible plan %+v", f)
		case f.reorder:
			n["reorder"]++
		case f.moment == afterAnswer:
			n["early"]++
		case f.moment == atExpiry:
			n["late"]++
		}
		if f.repeat {
			n["repeat"]++
		}
		if f.double {
			n["double"]++
		}
	}
	for name, share := range map[string]float64{
		"left": 0.1, "paid": 0.4, "cancelled": 0.3, "contested": 0.2, "reorder": 0.15, "early": 0.12, "late": 0.08, "repeat": 0.04, "double": 0.24,
	} {
		if got := n[name] / float64(o.Buyers); math.Abs(got-share) > 0.015 {
			t.Errorf("%s: share %.3f, want %.3f", name, got, share)
		}
	}
	with := plan(o)
	o.Shares = Shares{}
	for i, c := range plan(o) {
		if with[i].plan = (orderPlan{}); c != with[i] {
			t.Fatalf("plans made %+v of %+v", with[i], c)
		}
	}
}

// TestBackoff: buyers follow Retry-After, except impatient ones.
func TestBackoff(t *testing.T) {
	for _, tt := range []struct {
		impatient         bool
		attempts          int
		told, least, most time.Duration
	}{
		{false, 1, 0, 100 * time.Millisecond, 150 * time.Millisecond},
		{false, 3, 0, 400 * time.Millisecond, 600 * time.Millisecond},
		{false, 1, 20 * time.Second, 20 * time.Second, 30 * time.Second},
		{false, 1, time.Hour, longestWait, longestWait * 3 / 2},
		{true, 1, 20 * time.Second, 100 * time.Millisecond, 150 * time.Millisecond},
	} {
		c := &crowd{o: Options{RetryWait: 100 * time.Millisecond, Impatient: tt.impatient}}
		for range 100 {
			if d := c.backoff(tt.attempts, tt.told); d < tt.least || d > tt.most {
				t.Fatalf("%+v: %v", tt, d)
			}
		}
	}
}
