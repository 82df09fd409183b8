package storetest

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

const (
	admitted    = store.Reason("")
	limited     = store.RateLimited
	tooMuch     = store.CostAboveLimit
	doCharge    = store.Charge
	doCheck     = store.Check
	doRefund    = store.Refund
	doReset     = store.Reset
	doReject    = store.Reject
	doAdd       = store.Add
	doErase     = store.Erase
	sec         = time.Second
	ms          = time.Millisecond
	µs          = time.Microsecond
	callTimeout = 10 * time.Second
)

// A turn is what a store is asked at a time, and how the tally should stand then; after a refund, how one unit would. Times are ms.
type turn struct {
	at        int
	do        store.Mode
	cost      int // of a refund: which charge of the table is taken back, from 1 on
	reason    store.Reason
	remaining int
	retry     float64
	reset     float64
	limit     int // another limit from here on
}

func testAlgorithms(t *testing.T, open Opener) {
	tables := []struct {
		name  string
		tally func(d *Desk) store.Tally
		turns []turn
	}{
		{"sliding counter", counterOf(10), []turn{
			{0, doCheck, 1, admitted, 10, 0, 0, 0},
			{0, doCharge, 10, admitted, 0, 0, 2000, 0},
			{500, doCharge, 1, limited, 0, 600, 1500, 0}, // until a tenth of the earlier span has gone
			{999, doCharge, 10, limited, 0, 1001, 1001, 0},
			{1000, doCharge, 1, limited, 0, 100, 1000, 0},
			{1100, doCharge, 1, admitted, 0, 0, 1900, 0},
			{1100, doCharge, 1, limited, 0, 100, 1900, 0},
			{1150, doCharge, 1, limited, 0, 50, 1850, 0}, // 8.5 count as 9
			{1200, doCharge, 1, admitted, 0, 0, 1800, 0},
			{1200, doCharge, 11, tooMuch, 0, 0, 1800, 0},
			{1900, doCheck, 1, admitted, 7, 0, 1100, 0},
			{2000, doCheck, 1, admitted, 8, 0, 1000, 0},
			{2999, doCheck, 9, admitted, 9, 0, 1, 0},
			{3000, doCheck, 10, admitted, 10, 0, 0, 0},
		}},
		{"sliding counter: a clock that steps back waits at the span's beginning", counterOf(4), []turn{
			{0, doCharge, 4, admitted, 0, 0, 2000, 0},
			{1500, doCharge, 2, admitted, 0, 0, 1500, 0},
			{700, doCharge, 1, limited, 0, 750, 2000, 0}, // as at 1000: 2 and 4
			{700, doCheck, 2, limited, 0, 1000, 2000, 0},
			{1500, doCheck, 1, limited, 0, 250, 1500, 0},
		}},
		{"sliding counter: after a longer step back all units count in the span of then, up to the limit", counterOf(4), []turn{
			{0, doCharge, 4, admitted, 0, 0, 2000, 0},
			{1500, doCharge, 2, admitted, 0, 0, 1500, 0},
			{-500, doCharge, 1, limited, 0, 750, 1500, 0}, // 4 in the span that ends at 0
			{0, doCharge, 1, limited, 0, 250, 1000, 0},
			{250, doCharge, 1, admitted, 0, 0, 1750, 0},
		}},
		{"sliding counter: a changed limit acts on what counts", counterOf(10), []turn{
			{0, doCharge, 8, admitted, 2, 0, 2000, 0},
			{100, doCharge, 1, limited, 0, 1525, 1900, 4}, // 3 of 8 left at 1000 + 5/8 s
			{1625, doCharge, 1, admitted, 0, 0, 1375, 0},
			{1625, doCharge, 1, admitted, 14, 0, 1375, 19},
		}},
		{"sliding counter: refund", counterOf(10), []turn{
			{0, doCharge, 3, admitted, 7, 0, 2000, 0},
			{100, doCharge, 4, admitted, 3, 0, 1900, 0},
			{200, doRefund, 1, admitted, 6, 0, 1800, 0},
			{1000, doCharge, 5, admitted, 1, 0, 2000, 0},
			{1000, doRefund, 2, admitted, 5, 0, 2000, 0}, // from the earlier span
			{1000, doRefund, 2, admitted, 5, 0, 2000, 0}, // there is no more
			{5000, doRefund, 3, admitted, 10, 0, 0, 0},   // late
		}},
		{"sliding counter: rejected units count", counting(counterOf(4)), []turn{
			{0, doCharge, 4, admitted, 0, 0, 2000, 0},
			{0, doCharge, 2, limited, 0, 1666.667, 2000, 0}, // 6 count, 2 of 4 must be free
			{0, doCharge, 5, tooMuch, 0, 0, 2000, 0},
			{1000, doCheck, 1, limited, 0, 727.273, 1000, 0}, // 11 count
		}},

		{"fixed window, opened by the first", fixedOf(10), []turn{
			{300, doCheck, 1, admitted, 10, 0, 0, 0},
			{300, doCharge, 3, admitted, 7, 0, 1000, 0},
			{800, doCharge, 7, admitted, 0, 0, 500, 0},
			{801, doCharge, 1, limited, 0, 499, 499, 0},
			{801, doCharge, 11, tooMuch, 0, 0, 499, 0},
			{1299, doCharge, 1, limited, 0, 1, 1, 0},
			{1300, doCharge, 10, admitted, 0, 0, 1000, 0}, // P3: not moved by the hits that followed
			{5000, doCheck, 1, admitted, 10, 0, 0, 0},
		}},
		{"fixed window: a clock that steps back by up to a second waits at its beginning", fixedOf(2), []turn{
			{5000, doCharge, 1, admitted, 1, 0, 1000, 0},
			{4000, doCharge, 1, admitted, 0, 0, 1000, 0},
			{4500, doCharge, 1, limited, 0, 1000, 1000, 0},
			{5500, doCharge, 1, limited, 0, 500, 500, 0},
			{6000, doCharge, 1, admitted, 1, 0, 1000, 0},
		}},
		{"fixed window: after a longer step back it ends like one opened then", fixedOf(2), []turn{
			{5000, doCharge, 1, admitted, 1, 0, 1000, 0},
			{3999, doCheck, 2, limited, 1, 1000, 1000, 0},
			{4000, doCharge, 1, admitted, 0, 0, 999, 0},
			{4999, doCharge, 2, admitted, 0, 0, 1000, 0},
		}},
		{"fixed window: a changed limit acts on what counts", fixedOf(10), []turn{
			{0, doCharge, 8, admitted, 2, 0, 1000, 0},
			{100, doCharge, 1, limited, 0, 900, 900, 4},
			{100, doCharge, 1, admitted, 11, 0, 900, 20},
		}},
		{"fixed window: refund", fixedOf(10), []turn{
			{0, doCharge, 4, admitted, 6, 0, 1000, 0},
			{100, doRefund, 1, admitted, 10, 0, 0, 0},
			{100, doRefund, 1, admitted, 10, 0, 0, 0},
			{1000, doCharge, 4, admitted, 6, 0, 1000, 0},
			{1000, doRefund, 1, admitted, 6, 0, 1000, 0}, // of the window before
		}},
		{"fixed window: rejected units count", counting(fixedOf(4)), []turn{
			{0, doCharge, 5, tooMuch, 0, 0, 1000, 0}, // opens it
			{500, doCharge, 1, limited, 0, 500, 500, 0},
			{1000, doCharge, 1, admitted, 3, 0, 1000, 0},
		}},

		{"gcra", gcraOf(10, 3), []turn{
			{0, doCheck, 1, admitted, 3, 0, 0, 0},
			{0, doCharge, 3, admitted, 0, 0, 300, 0},
			{0, doCharge, 1, limited, 0, 100, 300, 0},
			{99, doCharge, 1, limited, 0, 1, 201, 0},
			{100, doCharge, 1, admitted, 0, 0, 300, 0},
			{250, doCheck, 2, limited, 1, 50, 150, 0},
			{250, doCharge, 4, tooMuch, 1, 0, 150, 0},
			{250, doCharge, 1, admitted, 0, 0, 250, 0},
			{900, doCharge, 3, admitted, 0, 0, 300, 0},
		}},
		{"gcra: an interval is rounded up", gcraOf(3, 3), []turn{
			{0, doCharge, 3, admitted, 0, 0, 1000.002, 0},
			{0, doCharge, 1, limited, 0, 333.334, 1000.002, 0},
		}},
		{"gcra: a clock that steps back costs no more than the burst", gcraOf(10, 3), []turn{
			{60_000, doCharge, 2, admitted, 1, 0, 200, 0},
			{0, doCharge, 1, limited, 0, 100, 300, 0},
			{0, doCheck, 3, limited, 0, 300, 300, 0},
			{100, doCharge, 1, admitted, 0, 0, 300, 0},
			{400, doCharge, 3, admitted, 0, 0, 300, 0},
			{0, doCharge, 1, limited, 0, 100, 300, 0}, // a step of less than a window
			{300, doCharge, 1, limited, 0, 100, 300, 0},
			{500, doCharge, 1, admitted, 0, 0, 300, 0},
		}},
		{"gcra: a changed limit acts on what counts", gcraOf(10, 10), []turn{
			{0, doCharge, 4, admitted, 6, 0, 400, 0},
			{0, doCheck, 1, admitted, 6, 0, 800, 5},    // still 4 of the burst
			{200, doCharge, 1, admitted, 7, 0, 600, 5}, // 2 were left, and one more
			{200, doCheck, 1, admitted, 7, 0, 300, 10},
		}},
		{"gcra: refund", gcraOf(10, 3), []turn{
			{0, doCharge, 2, admitted, 1, 0, 200, 0},
			{50, doRefund, 1, admitted, 3, 0, 0, 0}, // what is left of it
			{100, doCharge, 1, admitted, 2, 0, 100, 0},
			{100, doCharge, 1, admitted, 1, 0, 200, 0},
			{100, doRefund, 2, admitted, 2, 0, 100, 0},
			{500, doRefund, 3, admitted, 3, 0, 0, 0}, // late
		}},
		{"gcra: rejected units count, up to the burst", counting(gcraOf(10, 3)), []turn{
			{0, doCharge, 3, admitted, 0, 0, 300, 0},
			{50, doCharge, 2, limited, 0, 200, 300, 0},
			{60, doCharge, 9, tooMuch, 0, 0, 300, 0},
			{160, doCharge, 1, admitted, 0, 0, 300, 0},
		}},

		{"base", baseOf(3, 2), []turn{
			{0, doCheck, 1, admitted, 5, 0, 0, 0},
			{0, doCharge, 2, admitted, 3, 0, 1000, 0},   // the base
			{100, doCharge, 2, admitted, 1, 0, 1000, 0}, // does not fit into the base: the log
			{200, doCharge, 1, admitted, 0, 0, 900, 0},  // the base again
			{300, doCharge, 1, limited, 0, 700, 800, 0}, // the base ends first
			{300, doCharge, 4, tooMuch, 0, 0, 800, 0},
			{300, doCharge, 3, limited, 0, 700, 800, 0}, // more than the log will ever hold
			{1000, doCharge, 3, admitted, 0, 0, 1000, 0},
			{1000, doCharge, 1, limited, 0, 100, 1000, 0}, // the log ends first
			{1100, doCharge, 2, admitted, 0, 0, 1000, 0},
			{9000, doCheck, 1, admitted, 5, 0, 0, 0},
		}},
		{"base: refund", baseOf(2, 2), []turn{
			{0, doCharge, 2, admitted, 2, 0, 1000, 0},
			{10, doCharge, 2, admitted, 0, 0, 1000, 0},
			{20, doRefund, 1, admitted, 2, 0, 990, 0},
			{20, doRefund, 2, admitted, 4, 0, 0, 0},
			{2000, doCharge, 1, admitted, 3, 0, 1000, 0},
			{2000, doRefund, 1, admitted, 3, 0, 1000, 0}, // of the base before
		}},
		{"base: rejected units count in the log", counting(baseOf(2, 1)), []turn{
			{0, doCharge, 1, admitted, 2, 0, 1000, 0},
			{0, doCharge, 3, tooMuch, 1, 0, 1000, 0},
			{500, doCharge, 2, limited, 1, 500, 1000, 0},
			{1000, doCharge, 1, admitted, 1, 0, 1000, 0},
		}},

		{"sliding log: a clock that steps back by up to a second waits at the newest unit", logOf(2), []turn{
			{5000, doCharge, 1, admitted, 1, 0, 1000, 0},
			{4000, doCharge, 1, admitted, 0, 0, 1000, 0},
			{4500, doCharge, 1, limited, 0, 1000, 1000, 0},
			{6000, doCharge, 2, admitted, 0, 0, 1000, 0},
		}},
		{"sliding log: after a longer step back units of the future count from then on", logOf(3), []turn{
			{3000, doCharge, 1, admitted, 2, 0, 1000, 0},
			{3900, doCharge, 2, admitted, 0, 0, 1000, 0},
			{2800, doCheck, 1, limited, 0, 1000, 1000, 0},
			{3799, doCharge, 1, limited, 0, 1, 1, 0},
			{3800, doCharge, 3, admitted, 0, 0, 1000, 0},
		}},
		{"sliding log in parts: after a longer step back", logOf(200), []turn{
			{0, doCharge, 100, admitted, 100, 0, 1000, 0},
			{500, doCharge, 10, admitted, 90, 0, 1000, 0},
			{1600, doCharge, 190, admitted, 10, 0, 1000, 0},
			{1700, doCharge, 10, admitted, 0, 0, 1000, 0},
			{600, doCheck, 1, limited, 0, 1000, 1000, 0},
			{1599, doCharge, 200, limited, 0, 1, 1, 0},
			{1600, doCharge, 200, admitted, 0, 0, 1000, 0},
		}},
		{"sliding log: refund", logOf(5), []turn{
			{0, doCharge, 2, admitted, 3, 0, 1000, 0},
			{0, doCharge, 1, admitted, 2, 0, 1000, 0},
			{400, doCharge, 2, admitted, 0, 0, 1000, 0},
			{500, doRefund, 3, admitted, 2, 0, 500, 0},
			{500, doRefund, 1, admitted, 4, 0, 500, 0},
			{600, doRefund, 1, admitted, 5, 0, 0, 0}, // units of one time are alike
			{5000, doRefund, 2, admitted, 5, 0, 0, 0},
		}},
		{"sliding log: rejected units count, as many as the limit", counting(logOf(3)), []turn{
			{0, doCharge, 2, admitted, 1, 0, 1000, 0},
			{400, doCharge, 2, limited, 0, 1000, 1000, 0}, // the newest 3: 0, 400, 400
			{500, doCharge, 9, tooMuch, 0, 0, 1000, 0},
			{600, doCheck, 1, limited, 0, 900, 900, 0},
			{1499, doCheck, 1, limited, 0, 1, 1, 0},
			{1500, doCharge, 3, admitted, 0, 0, 1000, 0},
			{1600, doCharge, 3, limited, 0, 1000, 1000, 0},
			{1600, doCheck, 1, admitted, 7, 0, 1000, 10}, // no more than the limit of then were kept
		}},
	}
	for _, table := range tables {
		t.Run(table.name, func(t *testing.T) {
			d := newDesk(t, open)
			perform(d, table.tally(d), table.turns)
		})
	}
}

// perform puts the turns to the store.
func perform(d *Desk, tally store.Tally, turns []turn) {
	d.Helper()
	var charges []store.Tally
	for i, s := range turns {
		d.Clock.At(time.Duration(s.at) * ms)
		if s.limit != 0 {
			tally.Limit = s.limit
		}
		tally.Cost = s.cost
		var c store.Count
		if s.do == doRefund {
			d.One(doRefund, charges[s.cost-1])
			c = d.One(doCheck, Costing(tally, 1))
		} else {
			c = d.One(s.do, tally)
		}
		if s.do == doCharge && c.Reason == "" {
			charge := tally
			charge.Stamp = c.Stamp
			charges = append(charges, charge)
		}
		got := turn{s.at, s.do, s.cost, c.Reason, c.Remaining, inMS(c.RetryAfter), inMS(c.ResetAfter), s.limit}
		if got != s {
			d.Fatalf("turn %d:\n got %+v\nwant %+v", i, got, s)
		}
	}
	c := d.One(doReset, Costing(tally, 1))
	if c.Reason != "" || c.ResetAfter != 0 || c.Remaining != d.Left(tally) || d.One(doCheck, tally).ResetAfter != 0 {
		d.Errorf("after a reset: %+v", c)
	}
}

func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func logOf(limit int) func(*Desk) store.Tally {
	return func(d *Desk) store.Tally { return d.Tally(store.SlidingLog, limit, sec) }
}

func counterOf(limit int) func(*Desk) store.Tally {
	return func(d *Desk) store.Tally { return d.Tally(store.SlidingCounter, limit, sec) }
}

func fixedOf(limit int) func(*Desk) store.Tally {
	return func(d *Desk) store.Tally { return d.Tally(store.FixedWindow, limit, sec) }
}

func gcraOf(limit, burst int) func(*Desk) store.Tally {
	return func(d *Desk) store.Tally {
		t := d.Tally(store.GCRA, limit, sec)
		t.Burst = burst
		return t
	}
}

func baseOf(base, limit int) func(*Desk) store.Tally {
	return func(d *Desk) store.Tally { return based(d.Tally(store.TwoStage, limit, sec), base, sec) }
}

func counting(tally func(*Desk) store.Tally) func(*Desk) store.Tally {
	return func(d *Desk) store.Tally { return rejecting(tally(d)) }
}
