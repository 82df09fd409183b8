package storetest

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

func testAClockThatIsSetRight(t *testing.T, open Opener) {
	d := newDesk(t, open)
	ClockSetRight(d, d.Clock.At)
}

// ClockSetRight tests a store whose clock is a day ahead and then set right: units counted meanwhile count from then on, and no wait is
// longer than the tally can cause. set sets how far the clock is ahead, in whole seconds.
func ClockSetRight(d *Desk, set func(time.Duration)) {
	d.Helper()
	const day, limit = 24 * time.Hour, 3
	type limitOf struct {
		name    string
		tally   store.Tally
		longest time.Duration // wait that it can cause
	}
	cases := []limitOf{
		{"a log in parts", d.Tally(store.SlidingLog, 200, time.Minute), time.Minute},
		{"a log of rejected requests", rejecting(d.Tally(store.SlidingLog, limit, time.Minute)), time.Minute},
		{"a counter of rejected requests", rejecting(d.Tally(store.SlidingCounter, limit, time.Minute)), 2 * time.Minute},
		{"base", based(d.Tally(store.TwoStage, limit, time.Hour), 2, time.Minute), time.Hour},
		{"a log of a day", d.Tally(store.SlidingLog, limit, day), day},
		{"a window of a day", d.Tally(store.FixedWindow, limit, day), day},
		{"a counter of a day", d.Tally(store.SlidingCounter, limit, day), 2 * day},
	}
	for _, tally := range d.All(limit, time.Minute) {
		longest := time.Minute
		if tally.Algorithm == store.SlidingCounter {
			longest *= 2
		}
		cases = append(cases, limitOf{string(tally.Algorithm), tally, longest})
	}
	for unit, longest := range map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": day, "month": 31 * day} {
		tally := d.Tally(store.FixedWindow, limit, 0)
		tally.Window.Calendar = &store.Calendar{Unit: unit, Zone: time.UTC}
		cases = append(cases, limitOf{"calendar " + unit, tally, longest})
	}
	for _, c := range cases {
		c.tally.Key = d.Namespace + ":" + c.name + ":{ann}:window-1"
		set(day)
		for n := 0; d.One(doCharge, c.tally).Reason == "" && n < 300; n++ {
		}
		set(0)
		first := d.One(doCheck, c.tally)
		if first.Reason != limited || first.RetryAfter > c.longest || first.ResetAfter > c.longest {
			d.Errorf("%s: the clock was set right: %+v; want a wait of at most %v", c.name, first, c.longest)
			continue
		}
		wait := (first.RetryAfter + sec).Truncate(sec)
		set(wait / 2)
		if later := d.One(doCheck, c.tally); later.RetryAfter > first.RetryAfter-wait/2+sec {
			d.Errorf("%s: retry after %v, and %v later after %v", c.name, first.RetryAfter, wait/2, later.RetryAfter)
		}
		set(wait)
		if last := d.One(doCheck, c.tally); last.Reason != "" {
			d.Errorf("%s: retry after %v, and then %+v", c.name, first.RetryAfter, last)
		}
	}

	set(day)
	strikes := striking(d.TallyOf("bob", store.SlidingLog, 0, time.Minute), 3, time.Minute)
	known := d.TallyOf("cat", store.FixedWindow, 10, 30*day)
	d.One(doCharge, strikes)
	d.request(doCharge, "r", known)
	set(0)
	d.One(doCharge, strikes)
	if again := d.request(doCharge, "r", known)[0]; again.Remaining != 9 || d.Left(known) != 9 {
		d.Errorf("a resend once the clock was set right: %+v", again)
	}
	set(61 * sec)
	if c := d.One(doCharge, strikes); c.Struck {
		d.Error("struck by refusals of more than a minute ago")
	}
	if again := d.request(doCharge, "r", known)[0]; again.Remaining != 8 {
		d.Errorf("a request with the id of one more than a minute ago: %+v", again)
	}
}
