package storetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// A limit of 0 admits nothing, costs no look and counts nothing; any cost above what can be admitted at once is refused for good.
func testNothingFitsIntoALimitOfZero(t *testing.T, open Opener) {
	d := newDesk(t, open)
	for _, tally := range d.All(0, sec) {
		tally = rejecting(tally)
		for _, mode := range []store.Mode{doCharge, doCheck} {
			if c := d.One(mode, tally); c.Reason != tooMuch || c.Remaining != 0 || c.RetryAfter != 0 || c.ResetAfter != 0 || c.Stamp != 0 {
				t.Errorf("%s, %s: %+v", tally.Algorithm, mode, c)
			}
		}
		if tally.Limit, tally.Burst = 3, 3; d.Left(tally) != 3 {
			t.Errorf("%s counted %d", tally.Algorithm, 3-d.Left(tally))
		}
	}
}

// A cost is no less for being larger than a number of 32 bits.
func testNoCostIsTooLargeToBeRefused(t *testing.T, open Opener) {
	d := newDesk(t, open)
	for _, tally := range d.All(store.MaxLimit, time.Hour) {
		for _, cost := range []int{store.MaxLimit + 1, 1<<32 + 1, 1_000_000 * 1_000_000} {
			if c := d.One(doCharge, Costing(tally, cost)); c.Reason != tooMuch || c.Stamp != 0 {
				t.Errorf("%s: cost %d: %+v", tally.Algorithm, cost, c)
			}
		}
	}
}

// Waiting for the time of a refusal always suffices, and is never too long.
func testWaitingRetryAfterIsEnough(t *testing.T, open Opener) {
	for _, limit := range []int{1, 3, 7, 97} {
		d := newDesk(t, open)
		for _, tally := range d.All(limit, 997*ms) {
			for i := range 25 {
				d.Clock.Advance(time.Duration(i*i) * 1237 * µs)
				for d.One(doCharge, tally).Reason == "" {
				}
				want := Costing(tally, 1+i*(limit-1)/24)
				wait := d.One(doCheck, want).RetryAfter
				now := d.Clock.Now().Sub(Epoch)
				d.Clock.At(now + wait - µs)
				if c := d.One(doCheck, want); c.Reason == "" {
					t.Fatalf("%s: limit %d, cost %d has room after %v - 1 µs", tally.Algorithm, limit, want.Cost, wait)
				}
				d.Clock.At(now + wait)
				if c := d.One(doCheck, want); c.Reason != "" {
					t.Fatalf("%s: limit %d, cost %d after %v: %+v", tally.Algorithm, limit, want.Cost, wait, c)
				}
			}
		}
	}
}

// Numbers so large that floating-point arithmetic is off by one, so that a wait must be made longer by a µs.
func testALargeCounterWaitsLongEnough(t *testing.T, open Opener) {
	d := newDesk(t, open)
	for _, n := range []struct{ limit, window, cost int }{
		{749_412_549, 24_486_074_345, 607_597_180}, {512_401_815, 5_548_563_055, 43_858_997},
	} {
		tally := d.TallyOf(strconv.Itoa(n.limit), store.SlidingCounter, n.limit, time.Duration(n.window)*ms)
		d.One(doCharge, Costing(tally, n.limit))
		tally.Cost = n.cost
		now := d.Clock.Now().Sub(Epoch)
		wait := d.One(doCheck, tally).RetryAfter
		d.Clock.At(now + wait - µs)
		if c := d.One(doCheck, tally); c.Reason == "" {
			t.Errorf("limit %d: room after %v - 1 µs", n.limit, wait)
		}
		d.Clock.At(now + wait)
		if c := d.One(doCheck, tally); c.Reason != "" {
			t.Errorf("limit %d: after %v: %+v", n.limit, wait, c)
		}
		d.Clock.At(now)
	}
}
