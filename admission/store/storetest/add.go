package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// What has happened is counted although it does not fit: numbers take it all, logs and rates as much as is of use. The newest units of a
// log can be taken back, and only of a log. Each turn tells how another request of that cost would stand then.
func testAddAndErase(t *testing.T, open Opener) {
	for _, table := range []struct {
		name  string
		tally func(d *Desk) store.Tally
		turns []turn
	}{
		{"sliding log keeps the newest", logOf(3), []turn{
			{0, doAdd, 1, admitted, 2, 0, 1000, 0},
			{200, doAdd, 2, limited, 0, 1000, 1000, 0},
			{400, doAdd, 1, limited, 0, 800, 1000, 0}, // 200, 200, 400
			{400, doAdd, 9, tooMuch, 0, 0, 1000, 0},
			{400, doCheck, 1, limited, 0, 1000, 1000, 0}, // 400 three times
			{400, doErase, 1, admitted, 1, 0, 1000, 0},
			{400, doErase, 2, admitted, 3, 0, 0, 0},
			{400, doErase, 1, admitted, 3, 0, 0, 0}, // there is none
		}},
		{"sliding log: the newest are erased first", logOf(3), []turn{
			{0, doCharge, 1, admitted, 2, 0, 1000, 0},
			{300, doCharge, 1, admitted, 1, 0, 1000, 0},
			{600, doCharge, 1, admitted, 0, 0, 1000, 0},
			{700, doErase, 1, admitted, 1, 0, 600, 0},
			{700, doErase, 5, tooMuch, 3, 0, 0, 0}, // more than there is
			{1100, doCharge, 3, admitted, 0, 0, 1000, 0},
			{2000, doErase, 2, admitted, 2, 0, 100, 0},
			{2100, doErase, 1, admitted, 3, 0, 0, 0}, // what has ended
		}},
		{"sliding log: a clock that steps back waits at the newest unit that is left", logOf(3), []turn{
			{5000, doCharge, 1, admitted, 2, 0, 1000, 0},
			{5200, doCharge, 1, admitted, 1, 0, 1000, 0},
			{4300, doAdd, 1, limited, 0, 800, 1000, 0}, // as at 5200
			{4300, doErase, 2, admitted, 2, 0, 1000, 0},
			{4300, doAdd, 1, admitted, 1, 0, 1000, 0}, // as at 5000
			{4300, doErase, 2, admitted, 3, 0, 0, 0},
			{4300, doCharge, 1, admitted, 2, 0, 1000, 0},
			{5299, doCheck, 3, limited, 2, 1, 1, 0},
		}},
		{"sliding log: of more units than the limit the newest are as good as all", logOf(10), []turn{
			{0, doAdd, 8, limited, 2, 1000, 1000, 0},
			{100, doErase, 1, admitted, 1, 0, 900, 4},
			{100, doErase, 9, admitted, 10, 0, 0, 10},
			{2000, doAdd, 2, admitted, 8, 0, 1000, 0},
			{2500, doAdd, 2, admitted, 6, 0, 1000, 0},
			{2600, doErase, 1, admitted, 1, 0, 900, 2}, // one of 2500 is left
			{3100, doCheck, 2, limited, 1, 400, 400, 0},
		}},
		{"sliding log, written in places", logOf(200), []turn{
			{0, doCharge, 200, admitted, 0, 0, 1000, 0},
			{100, doAdd, 10, limited, 0, 900, 1000, 0},
			{100, doErase, 5, admitted, 5, 0, 1000, 0},
			{100, doErase, 5, admitted, 10, 0, 900, 0},
			{100, doErase, 200, admitted, 200, 0, 0, 0},
		}},
		{"fixed window", fixedOf(3), []turn{
			{0, doAdd, 2, limited, 1, 1000, 1000, 0},
			{100, doAdd, 9, tooMuch, 0, 0, 900, 0},
			{100, doErase, 1, limited, 0, 900, 900, 0},
			{100, doCheck, 1, admitted, 1, 0, 900, 12}, // all 11 count
			{900, doAdd, 20, tooMuch, 0, 0, 100, 0},    // nor is the end moved
			{1000, doCheck, 12, admitted, 12, 0, 0, 0},
		}},
		{"fixed window: a clock that steps back waits at its beginning", fixedOf(1), []turn{
			{5000, doAdd, 1, limited, 0, 1000, 1000, 0},
			{4100, doAdd, 1, limited, 0, 1000, 1000, 0},
			{5500, doCheck, 1, admitted, 1, 0, 500, 3},
		}},
		{"sliding counter", counterOf(10), []turn{
			{0, doAdd, 4, admitted, 6, 0, 2000, 0},
			{0, doAdd, 9, limited, 0, 1923.077, 2000, 0}, // 13
			{0, doAdd, 11, tooMuch, 0, 0, 2000, 0},       // 24
			{1000, doErase, 1, limited, 0, 625, 1000, 0},
		}},
		{"gcra", gcraOf(10, 3), []turn{
			{0, doAdd, 2, limited, 1, 100, 200, 0},
			{0, doAdd, 2, limited, 0, 200, 300, 0},
			{0, doAdd, 4, tooMuch, 0, 0, 300, 0},
			{50, doErase, 1, limited, 0, 50, 250, 0},
			{300, doCheck, 3, admitted, 3, 0, 0, 0},
		}},
		{"base: the first stage is filled first", baseOf(3, 2), []turn{
			{0, doAdd, 2, admitted, 3, 0, 1000, 0},
			{100, doAdd, 1, admitted, 2, 0, 900, 0},
			{200, doAdd, 1, admitted, 1, 0, 1000, 0},
			{200, doAdd, 1, limited, 0, 800, 1000, 0},
			{300, doAdd, 1, limited, 0, 700, 1000, 0},
			{300, doErase, 1, limited, 0, 700, 1000, 0}, // its log is no sliding log by itself
			{300, doAdd, 9, tooMuch, 0, 0, 1000, 0},
			{1000, doCheck, 3, admitted, 3, 0, 300, 0}, // the base was not filled beyond its limit
		}},
	} {
		t.Run(table.name, func(t *testing.T) {
			d := newDesk(t, open)
			perform(d, table.tally(d), table.turns)
		})
	}
}

// Every tally is added to by itself, in whatever slot: neither one that is full nor a shadow changes what the others count.
func testAddCountsInEveryTally(t *testing.T, open Opener) {
	d := newDesk(t, open)
	full := d.TallyOf("bob", store.FixedWindow, 1, sec)
	d.One(doCharge, full)
	shadow := d.TallyOf("cat", store.FixedWindow, 1, sec)
	shadow.Shadow = true
	d.One(doCharge, shadow)
	zero := d.TallyOf("dan", store.FixedWindow, 0, sec)
	struck := striking(d.TallyOf("eve", store.FixedWindow, 1, sec), 1, sec)
	d.One(doCharge, struck)

	all := append(d.All(5, sec), full, shadow, zero, struck)
	for i, c := range d.Do(doAdd, all...) {
		want := 4
		if i >= len(all)-4 {
			want = 0
		}
		if c.Remaining != want || c.Struck {
			t.Errorf("%s of %s: %+v, want %d left", all[i].Algorithm, all[i].Subject, c, want)
		}
	}
	for _, c := range []struct {
		tally store.Tally
		want  int
	}{{full, 8}, {shadow, 8}, {zero, 10}, {struck, 8}} {
		c.tally.Limit = 10
		if left := d.Left(c.tally); left != c.want {
			t.Errorf("of 10 of %s %d are left, want %d", c.tally.Subject, left, c.want)
		}
	}
}

func testEraseTakesFromEveryLogAndNothingElse(t *testing.T, open Opener) {
	d := newDesk(t, open)
	bobs, zero := d.TallyOf("bob", store.SlidingLog, 5, sec), d.TallyOf("cat", store.SlidingLog, 5, sec)
	all := append(d.All(5, sec), bobs, zero)
	d.Do(doAdd, all...)
	d.Do(doAdd, all...)
	all[len(all)-1].Limit = 0
	d.Do(doErase, all...)
	all[len(all)-1].Limit = 5
	for i, c := range d.Do(doCheck, all...) {
		want := 3
		if all[i].Algorithm == store.SlidingLog && all[i].Subject != "cat" {
			want = 4
		}
		if c.Remaining != want {
			t.Errorf("%s of %s has %d left, want %d", all[i].Algorithm, all[i].Subject, c.Remaining, want)
		}
	}
}

// P14: concurrent calls of Add lose nothing.
func testAddsAtTheSameTime(t *testing.T, open Opener) {
	d := NewDesk(t, open(nil), nil)
	const callers = 50
	number := d.TallyOf("bob", store.FixedWindow, 10, time.Hour)
	all := append(slices.Clone(d.All(2, time.Hour)), number)
	done := make(chan error, callers)
	for range callers {
		go func() {
			_, err := d.Store.Decide(t.Context(), store.Call{Mode: doAdd, Tallies: slices.Clone(all)})
			done <- err
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	number.Limit = callers + 1
	if n := d.Left(number); n != 1 {
		t.Errorf("%d of %d left after %d", n, number.Limit, callers)
	}
}
