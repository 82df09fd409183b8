package admission_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
)

// A limit of 0 admits nothing, costs no look and counts nothing; any cost above what can be admitted at once is refused for good.
func TestNothingFitsIntoALimitOfZero(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		for _, tally := range d.all(0, sec) {
			tally = rejecting(tally)
			for _, mode := range []admission.Mode{doCharge, doCheck} {
				if c := d.one(mode, tally); c.Reason != tooMuch || c.Remaining != 0 || c.RetryAfter != 0 || c.ResetAfter != 0 || c.Stamp != 0 {
					t.Errorf("%s, %s: %+v", tally.Algorithm, mode, c)
				}
			}
			if tally.Limit, tally.Burst = 3, 3; d.left(tally) != 3 {
				t.Errorf("%s counted %d", tally.Algorithm, 3-d.left(tally))
			}
		}
	})
}

// A cost is no less for being larger than a number of 32 bits.
func TestNoCostIsTooLargeToBeRefused(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		for _, tally := range d.all(admission.MaxLimit, time.Hour) {
			for _, cost := range []int{admission.MaxLimit + 1, 1<<32 + 1, admission.MaxCost * admission.MaxCost} {
				if c := d.one(doCharge, costing(tally, cost)); c.Reason != tooMuch || c.Stamp != 0 {
					t.Errorf("%s: cost %d: %+v", tally.Algorithm, cost, c)
				}
			}
		}
	})
}

// Waiting for the time of a refusal always suffices, and is never too long.
func TestWaitingRetryAfterIsEnough(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		for _, limit := range []int{1, 3, 7, 97} {
			d := newDesk(t, open)
			for _, tally := range d.all(limit, 997*ms) {
				for i := range 25 {
					d.clk.Advance(time.Duration(i*i) * 1237 * µs)
					for d.one(doCharge, tally).Reason == "" {
					}
					want := costing(tally, 1+i*(limit-1)/24)
					wait := d.one(doCheck, want).RetryAfter
					now := d.clk.Now().Sub(epoch)
					d.clk.At(now + wait - µs)
					if c := d.one(doCheck, want); c.Reason == "" {
						t.Fatalf("%s: limit %d, cost %d has room after %v - 1 µs", tally.Algorithm, limit, want.Cost, wait)
					}
					d.clk.At(now + wait)
					if c := d.one(doCheck, want); c.Reason != "" {
						t.Fatalf("%s: limit %d, cost %d after %v: %+v", tally.Algorithm, limit, want.Cost, wait, c)
					}
				}
			}
		}
	})
}

// Numbers so large that floating-point arithmetic is off by one, so that a wait must be made longer by a µs.
func TestALargeCounterWaitsLongEnough(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		for _, n := range []struct{ limit, window, cost int }{
			{749_412_549, 24_486_074_345, 607_597_180}, {512_401_815, 5_548_563_055, 43_858_997},
		} {
			tally := d.tallyOf(strconv.Itoa(n.limit), admission.SlidingCounter, n.limit, time.Duration(n.window)*ms)
			d.one(doCharge, costing(tally, n.limit))
			tally.Cost = n.cost
			now := d.clk.Now().Sub(epoch)
			wait := d.one(doCheck, tally).RetryAfter
			d.clk.At(now + wait - µs)
			if c := d.one(doCheck, tally); c.Reason == "" {
				t.Errorf("limit %d: room after %v - 1 µs", n.limit, wait)
			}
			d.clk.At(now + wait)
			if c := d.one(doCheck, tally); c.Reason != "" {
				t.Errorf("limit %d: after %v: %+v", n.limit, wait, c)
			}
			d.clk.At(now)
		}
	})
}
