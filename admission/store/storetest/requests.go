package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/admission/store"
)

func (d *Desk) request(mode store.Mode, id string, tallies ...store.Tally) []store.Count {
	d.Helper()
	return d.Ask(store.Call{Mode: mode, Tallies: tallies, Request: fmt.Sprintf("%-22s", id)})
}

var ignoreStamp = cmpopts.IgnoreFields(store.Count{}, "Stamp")

// P11: a resend is answered as before and charged no second time, also when much has happened in between.
func testAResendIsAnsweredAsBefore(t *testing.T, open Opener) {
	d := newDesk(t, open)
	tallies := d.All(3, time.Hour)
	first := d.request(doCharge, "r1", tallies...)
	d.Clock.Advance(20 * sec)
	d.request(doCharge, "r2", tallies...)
	d.Clock.Advance(20 * sec)
	again := d.request(doCharge, "r1", tallies...)
	if diff := cmp.Diff(first, again, ignoreStamp); diff != "" {
		t.Errorf("a resend (-first +again):\n%s", diff)
	}
	for _, tally := range tallies {
		if n := d.Left(tally); n != 1 && tally.Algorithm != store.GCRA {
			t.Errorf("%s: %d left, want 1", tally.Algorithm, n)
		}
	}
	// Refusals as well; they strike once.
	full := striking(rejecting(d.TallyOf("bob", store.FixedWindow, 1, time.Hour)), 2, time.Hour)
	d.request(doCharge, "r3", full)
	refused := d.request(doCharge, "r4", full)
	d.Clock.Advance(sec)
	for range 3 {
		if diff := cmp.Diff(refused, d.request(doCharge, "r4", full), ignoreStamp); diff != "" {
			t.Errorf("a resend of a refused one (-first +again):\n%s", diff)
		}
	}
	if c := d.request(doCharge, "r5", full)[0]; !c.Struck {
		t.Errorf("the second refusal: %+v", c)
	}
	if c := d.request(doCharge, "r5", full)[0]; c.Struck {
		t.Errorf("the second refusal, sent again: %+v", c)
	}
	if c := d.request(doCheck, "r3", full)[0]; c.Reason != limited {
		t.Errorf("a check has no memory of requests: %+v", c)
	}
}

// What a request did not ask before is decided now, and a refusal of either kind refuses all.
func testAResendThatAsksMore(t *testing.T, open Opener) {
	d := newDesk(t, open)
	log, fixed := d.Tally(store.SlidingLog, 1, time.Hour), d.Tally(store.FixedWindow, 1, time.Hour)
	d.request(doCharge, "r1", log)
	both := d.request(doCharge, "r1", log, fixed)
	if both[0].Reason != "" || both[1].Reason != "" || d.Left(fixed) != 0 {
		t.Errorf("with one tally more: %+v", both)
	}
	gcra := d.Tally(store.GCRA, 1, time.Hour)
	both = d.request(doCharge, "r2", log, gcra)
	if both[0].Reason != limited || both[1].Reason != "" || both[1].Stamp != 0 {
		t.Errorf("refused: %+v", both)
	}
	cell := d.Tally(store.SlidingCounter, 1, time.Hour)
	if both = d.request(doCharge, "r2", log, cell); both[0].Reason != limited || both[1].Stamp != 0 || d.Left(cell) != 1 {
		t.Errorf("refused again, beside one with room: %+v", both)
	}
}

// That there was room once, for a request that was refused elsewhere, is no right to it: not for a resend that comes by another
// address, and not after a reset.
func testARefusedRequestHasNoPlace(t *testing.T, open Opener) {
	d := newDesk(t, open)
	full := d.TallyOf("address", store.SlidingLog, 1, time.Hour)
	d.One(doCharge, full)
	elsewhere := d.TallyOf("another address", store.SlidingLog, 9, time.Hour)
	for _, tally := range d.All(1, time.Hour) {
		id := "of-" + string(tally.Algorithm)
		if c := d.request(doCharge, id, tally, full); c[0].Reason != "" || c[1].Reason != limited {
			t.Fatalf("%s: %+v", tally.Algorithm, c)
		}
		for n := d.Left(tally); n > 0; n-- { // taken by others
			d.One(doCharge, tally)
		}
		if c := d.request(doCharge, id, tally, elsewhere); c[0].Reason != limited || c[1].Stamp != 0 {
			t.Errorf("%s: from another address: %+v", tally.Algorithm, c)
		}
		d.One(doReset, tally)
		if c := d.request(doCharge, id, tally, elsewhere); c[0].Reason != "" || c[0].Stamp == 0 {
			t.Errorf("%s: after a reset: %+v", tally.Algorithm, c)
		}
	}
}

func testARequestIsRefundedOnce(t *testing.T, open Opener) {
	d := newDesk(t, open)
	for _, tally := range d.All(5, time.Hour) {
		id := "of-" + string(tally.Algorithm)
		two := Costing(tally, 2)
		if c := d.request(doRefund, id, two)[0]; c.Stamp != 0 || c.Remaining != 5 {
			t.Errorf("%s: a refund of nothing: %+v", tally.Algorithm, c)
		}
		d.request(doCharge, id, two)
		d.request(doCharge, id+"'", two)
		for i := range 3 {
			// The original cost is refunded, whatever cost the refund request has.
			if c := d.request(doRefund, id, Costing(tally, 1+i))[0]; c.Stamp == 0 || c.Remaining != 3 {
				t.Errorf("%s: refund %d: %+v", tally.Algorithm, i, c)
			}
		}
		// A charge that arrives late, or once more, is answered as before and not counted again: a new attempt has a new id.
		if c := d.request(doCharge, id, two)[0]; c.Reason != "" || c.Remaining != 3 || d.Left(tally) != 3 {
			t.Errorf("%s: after a charge and a refund the charge is answered %+v, and %d are left", tally.Algorithm, c, d.Left(tally))
		}
		if c := d.request(doRefund, id, two)[0]; c.Stamp == 0 || c.Remaining != 3 {
			t.Errorf("%s: the second refund: %+v", tally.Algorithm, c)
		}
	}
	full := d.TallyOf("bob", store.SlidingLog, 1, time.Hour)
	d.One(doCharge, full)
	d.request(doCharge, "r", full)
	if c := d.request(doRefund, "r", full)[0]; c.Stamp != 0 || d.Left(full) != 0 {
		t.Errorf("a refund of a refusal: %+v", c)
	}
	// Nor is there one where one slot of a cluster had let it in before the next one refused.
	for _, tally := range d.All(9, time.Hour) {
		other := d.TallyOf("cat", tally.Algorithm, 9, time.Hour)
		if tally.Base != nil {
			other = based(other, 0, time.Hour)
		}
		for i, left := range []int{9, 8} {
			id := fmt.Sprint("refused", i, tally.Algorithm)
			other.CountRejected = i == 1
			for range 2 {
				if c := d.request(doCharge, id, other, full); c[0].Reason != "" || c[0].Stamp != 0 || c[1].Reason != limited {
					t.Errorf("%s: %+v", tally.Algorithm, c)
				}
				if c := d.request(doRefund, id, other, full); c[0].Stamp != 0 || c[1].Stamp != 0 || c[0].Remaining != left {
					t.Errorf("%s: a refund of a refusal: %+v, want %d left", tally.Algorithm, c, left)
				}
			}
		}
	}
}

func testRequestsAreForgottenAfterAMinute(t *testing.T, open Opener) {
	d := newDesk(t, open)
	tally := d.Tally(store.FixedWindow, 10, time.Hour)
	d.request(doCharge, "r1", tally)
	d.Clock.At(time.Minute - µs)
	if d.request(doCharge, "r1", tally); d.Left(tally) != 9 {
		t.Error("forgotten within a minute")
	}
	d.Clock.At(time.Minute)
	if c := d.request(doRefund, "r1", tally)[0]; c.Stamp != 0 || c.Remaining != 9 {
		t.Errorf("refunded after a minute: %+v", c)
	}
	if d.request(doCharge, "r1", tally); d.Left(tally) != 8 {
		t.Error("not forgotten after a minute")
	}
	if d.request(doRefund, "r1", tally); d.Left(tally) != 9 {
		t.Error("the second one with the same id cannot be refunded")
	}
}

// A caller cannot fill a store with ids, and cannot make it forget the last hundred of them either.
func testTheLastRequestsAreKnown(t *testing.T, open Opener) {
	d := newDesk(t, open)
	tally := d.Tally(store.FixedWindow, 100_000, time.Hour)
	const many = 700
	for i := range many {
		d.request(doCharge, fmt.Sprint(i), tally)
		d.Clock.Advance(ms)
	}
	left := d.Left(tally)
	for i := many - 128; i < many; i++ {
		d.request(doCharge, fmt.Sprint(i), tally)
	}
	if n := d.Left(tally); n != left {
		t.Errorf("%d of the last 128 requests were forgotten", left-n)
	}
	for i := range many - 256 {
		d.request(doCharge, fmt.Sprint("x", i), tally)
	}
	left = d.Left(tally)
	if d.request(doCharge, "0", tally); d.Left(tally) != left-1 {
		t.Error("the first of 1,144 requests is still known")
	}
}
