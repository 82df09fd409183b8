package storetest

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// eachAlgorithm runs test for all algorithms.
func eachAlgorithm(t *testing.T, open Opener, limit int, test func(d *Desk, tally store.Tally)) {
	t.Helper()
	d := newDesk(t, open)
	for _, tally := range d.All(limit, 10*sec) {
		d.Clock.At(5 * sec) // where a span of ten seconds begins
		test(d, tally)
	}
}

func testPitfallP01EqualTimesCountEach(t *testing.T, open Opener) {
	eachAlgorithm(t, open, 20, func(d *Desk, tally store.Tally) {
		for i := range 21 {
			if c := d.One(doCharge, tally); (c.Reason == "") != (i < 20) || c.Remaining != max(0, 19-i) {
				d.Errorf("%s: charge %d at one time: %+v", tally.Algorithm, i+1, c)
			}
		}
	})
}

func testPitfallP02NobodyIsRefusedOnceTheWindowHasEnded(t *testing.T, open Opener) {
	eachAlgorithm(t, open, 5, func(d *Desk, tally store.Tally) {
		for range 3 {
			c := d.One(doCharge, Costing(tally, 5))
			if c.Reason != "" || c.Remaining != 0 {
				d.Errorf("%s: %+v", tally.Algorithm, c)
			}
			d.Clock.Advance(c.ResetAfter)
		}
	})
}

func testPitfallP03HitsDoNotMoveTheEnd(t *testing.T, open Opener) {
	eachAlgorithm(t, open, 100, func(d *Desk, tally store.Tally) {
		d.One(doCharge, Costing(tally, 50))
		for range 9 {
			d.Clock.Advance(sec)
			d.One(doCharge, tally)
		}
		d.Clock.Advance(sec) // when the fifty have ended, or half of them where they are taken as spread over ten seconds
		if c := d.One(doCheck, tally); c.Remaining < 41 || tally.Algorithm != store.SlidingCounter && c.Remaining < 91 {
			d.Errorf("%s: %+v", tally.Algorithm, c)
		}
	})
}

// The clock of this test runs ahead of Redis' expiry: the old window's key is still there.
func testPitfallP05TheOldWindowDoesNotCountInTheNew(t *testing.T, open Opener) {
	d := newDesk(t, open)
	minute := d.TallyOf("bob", store.FixedWindow, 5, 0)
	minute.Window.Calendar = &store.Calendar{Unit: "minute", Zone: time.UTC}
	for _, tally := range []store.Tally{d.Tally(store.FixedWindow, 5, time.Minute), minute} {
		for range 3 {
			c := d.One(doCharge, Costing(tally, 5))
			if c.Reason != "" {
				t.Errorf("%+v", c)
			}
			d.Clock.Advance(c.ResetAfter)
		}
	}
}

// A caller that asks all the time is admitted as often as one that waits.
func testPitfallP06RejectedRequestsAreNotCounted(t *testing.T, open Opener) {
	eachAlgorithm(t, open, 4, func(d *Desk, tally store.Tally) {
		admitted := 0
		for range 400 {
			if d.One(doCharge, tally).Reason == "" {
				admitted++
			}
			d.Clock.Advance(100 * ms)
		}
		if admitted < 13 { // a counter that rounds up lets a little less pass
			d.Errorf("%s: %d admitted in 40 s, at 4 in 10 s", tally.Algorithm, admitted)
		}
	})
}

// In the year 2200 a time in µs has 53 bits: the last one that a floating-point number holds.
func testPitfallP08TimesAreExact(t *testing.T, open Opener) {
	eachAlgorithm(t, open, 3, func(d *Desk, tally store.Tally) {
		d.Clock.At(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).Sub(Epoch))
		d.One(doCharge, Costing(tally, 3))
		c := d.One(doCheck, tally)
		d.Clock.Advance(c.RetryAfter - µs)
		if c := d.One(doCheck, tally); c.RetryAfter != µs {
			d.Errorf("%s: a µs before its end: %+v", tally.Algorithm, c)
		}
		d.Clock.Advance(µs)
		if c := d.One(doCharge, tally); c.Reason != "" {
			d.Errorf("%s: at its end: %+v", tally.Algorithm, c)
		}
	})
}

func testPitfallP13NothingIsLeftIsNothing(t *testing.T, open Opener) {
	eachAlgorithm(t, open, 9, func(d *Desk, tally store.Tally) {
		d.One(doCharge, Costing(tally, 9))
		tally.Limit, tally.Burst = 4, 4
		for _, mode := range []store.Mode{doCheck, doCharge} {
			if c := d.One(mode, tally); c.Remaining != 0 || c.Reason != limited {
				d.Errorf("%s, where more counts than the limit: %+v", tally.Algorithm, c)
			}
		}
	})
}

// Every caller gets the same end, to the µs.
func testPitfallP22TheEndIsOneInstant(t *testing.T, open Opener) {
	d := newDesk(t, open)
	calendar := d.TallyOf("bob", store.FixedWindow, 10, 0)
	calendar.Window.Calendar = &store.Calendar{Unit: "day", Zone: zone(t, "Asia/Kolkata")}
	for _, tally := range append(d.All(10, 10*sec), calendar) {
		c := d.One(doCharge, Costing(tally, 10))
		end := c.At.Add(c.ResetAfter)
		for range 20 {
			d.Clock.Advance(77_777 * µs)
			if c := d.One(doCheck, tally); !c.At.Add(c.ResetAfter).Equal(end) {
				t.Errorf("%s: ends at %v, want %v", tally.Algorithm, c.At.Add(c.ResetAfter), end)
			}
		}
	}
}

func testPitfallP29ABatchAboveTheLimitNeverPasses(t *testing.T, open Opener) {
	eachAlgorithm(t, open, 5, func(d *Desk, tally store.Tally) {
		for range 3 {
			if c := d.One(doCharge, Costing(tally, 6)); c.Reason != tooMuch || c.RetryAfter != 0 || c.Remaining != 5 {
				d.Errorf("%s: %+v", tally.Algorithm, c)
			}
			d.Clock.Advance(time.Minute)
		}
	})
}
