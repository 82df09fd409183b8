package admission_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/admission"
)

func (d *desk) request(mode admission.Mode, id string, tallies ...admission.Tally) []admission.Count {
	d.Helper()
	return d.ask(admission.Call{Mode: mode, Tallies: tallies, Request: fmt.Sprintf("%-22s", id)})
}

var ignoreStamp = cmpopts.IgnoreFields(admission.Count{}, "Stamp")

// P11: a resend is answered as before and charged no second time, also when much has happened in between.
func TestAResendIsAnsweredAsBefore(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		tallies := d.all(3, time.Hour)
		first := d.request(doCharge, "r1", tallies...)
		d.clk.Advance(20 * sec)
		d.request(doCharge, "r2", tallies...)
		d.clk.Advance(20 * sec)
		again := d.request(doCharge, "r1", tallies...)
		if diff := cmp.Diff(first, again, ignoreStamp); diff != "" {
			t.Errorf("a resend (-first +again):\n%s", diff)
		}
		for _, tally := range tallies {
			if n := d.left(tally); n != 1 && tally.Algorithm != admission.GCRA {
				t.Errorf("%s: %d left, want 1", tally.Algorithm, n)
			}
		}
		// Refusals as well; they strike once.
		full := striking(rejecting(d.tallyOf("bob", admission.FixedWindow, 1, time.Hour)), 2, time.Hour)
		d.request(doCharge, "r3", full)
		refused := d.request(doCharge, "r4", full)
		d.clk.Advance(sec)
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
	})
}

// What a request did not ask before is decided now, and a refusal of either kind refuses all.
func TestAResendThatAsksMore(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		log, fixed := d.tally(admission.SlidingLog, 1, time.Hour), d.tally(admission.FixedWindow, 1, time.Hour)
		d.request(doCharge, "r1", log)
		both := d.request(doCharge, "r1", log, fixed)
		if both[0].Reason != "" || both[1].Reason != "" || d.left(fixed) != 0 {
			t.Errorf("with one tally more: %+v", both)
		}
		gcra := d.tally(admission.GCRA, 1, time.Hour)
		both = d.request(doCharge, "r2", log, gcra)
		if both[0].Reason != limited || both[1].Reason != "" || both[1].Stamp != 0 {
			t.Errorf("refused: %+v", both)
		}
		cell := d.tally(admission.SlidingCounter, 1, time.Hour)
		if both = d.request(doCharge, "r2", log, cell); both[0].Reason != limited || both[1].Stamp != 0 || d.left(cell) != 1 {
			t.Errorf("refused again, beside one with room: %+v", both)
		}
	})
}

// That there was room once, for a request that was refused elsewhere, is no right to it: not for a resend that comes by another
// address, and not after a reset.
func TestARefusedRequestHasNoPlace(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		full := d.tallyOf("address", admission.SlidingLog, 1, time.Hour)
		d.one(doCharge, full)
		elsewhere := d.tallyOf("another address", admission.SlidingLog, 9, time.Hour)
		for _, tally := range d.all(1, time.Hour) {
			id := "of-" + string(tally.Algorithm)
			if c := d.request(doCharge, id, tally, full); c[0].Reason != "" || c[1].Reason != limited {
				t.Fatalf("%s: %+v", tally.Algorithm, c)
			}
			for n := d.left(tally); n > 0; n-- { // taken by others
				d.one(doCharge, tally)
			}
			if c := d.request(doCharge, id, tally, elsewhere); c[0].Reason != limited || c[1].Stamp != 0 {
				t.Errorf("%s: from another address: %+v", tally.Algorithm, c)
			}
			d.one(doReset, tally)
			if c := d.request(doCharge, id, tally, elsewhere); c[0].Reason != "" || c[0].Stamp == 0 {
				t.Errorf("%s: after a reset: %+v", tally.Algorithm, c)
			}
		}
	})
}

func TestARequestIsRefundedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		for _, tally := range d.all(5, time.Hour) {
			id := "of-" + string(tally.Algorithm)
			two := costing(tally, 2)
			if c := d.request(doRefund, id, two)[0]; c.Stamp != 0 || c.Remaining != 5 {
				t.Errorf("%s: a refund of nothing: %+v", tally.Algorithm, c)
			}
			d.request(doCharge, id, two)
			d.request(doCharge, id+"'", two)
			for i := range 3 {
				// The original cost is refunded, whatever cost the refund request has.
				if c := d.request(doRefund, id, costing(tally, 1+i))[0]; c.Stamp == 0 || c.Remaining != 3 {
					t.Errorf("%s: refund %d: %+v", tally.Algorithm, i, c)
				}
			}
			// A charge that arrives late, or once more, is answered as before and not counted again: a new attempt has a new id.
			if c := d.request(doCharge, id, two)[0]; c.Reason != "" || c.Remaining != 3 || d.left(tally) != 3 {
				t.Errorf("%s: after a charge and a refund the charge is answered %+v, and %d are left", tally.Algorithm, c, d.left(tally))
			}
			if c := d.request(doRefund, id, two)[0]; c.Stamp == 0 || c.Remaining != 3 {
				t.Errorf("%s: the second refund: %+v", tally.Algorithm, c)
			}
		}
		full := d.tallyOf("bob", admission.SlidingLog, 1, time.Hour)
		d.one(doCharge, full)
		d.request(doCharge, "r", full)
		if c := d.request(doRefund, "r", full)[0]; c.Stamp != 0 || d.left(full) != 0 {
			t.Errorf("a refund of a refusal: %+v", c)
		}
		// Nor is there one where one slot of a cluster had let it in before the next one refused.
		for _, tally := range d.all(9, time.Hour) {
			other := d.tallyOf("cat", tally.Algorithm, 9, time.Hour)
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
	})
}

func TestRequestsAreForgottenAfterAMinute(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		tally := d.tally(admission.FixedWindow, 10, time.Hour)
		d.request(doCharge, "r1", tally)
		d.clk.At(time.Minute - µs)
		if d.request(doCharge, "r1", tally); d.left(tally) != 9 {
			t.Error("forgotten within a minute")
		}
		d.clk.At(time.Minute)
		if c := d.request(doRefund, "r1", tally)[0]; c.Stamp != 0 || c.Remaining != 9 {
			t.Errorf("refunded after a minute: %+v", c)
		}
		if d.request(doCharge, "r1", tally); d.left(tally) != 8 {
			t.Error("not forgotten after a minute")
		}
		if d.request(doRefund, "r1", tally); d.left(tally) != 9 {
			t.Error("the second one with the same id cannot be refunded")
		}
	})
}

// A caller cannot fill a store with ids, and cannot make it forget the last hundred of them either.
func TestTheLastRequestsAreKnown(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		d := newDesk(t, open)
		tally := d.tally(admission.FixedWindow, 100_000, time.Hour)
		const many = 700
		for i := range many {
			d.request(doCharge, fmt.Sprint(i), tally)
			d.clk.Advance(ms)
		}
		left := d.left(tally)
		for i := many - 128; i < many; i++ {
			d.request(doCharge, fmt.Sprint(i), tally)
		}
		if n := d.left(tally); n != left {
			t.Errorf("%d of the last 128 requests were forgotten", left-n)
		}
		for i := range many - 256 {
			d.request(doCharge, fmt.Sprint("x", i), tally)
		}
		left = d.left(tally)
		if d.request(doCharge, "0", tally); d.left(tally) != left-1 {
			t.Error("the first of 1,144 requests is still known")
		}
	})
}

func TestAMemoryFullOfRequests(t *testing.T) {
	clk := newClock()
	d := &desk{t, admission.NewMemoryStore(admission.MemoryOptions{MaxSubjects: 64, Now: clk.Now}), clk, namespace()}
	call := func(i int) admission.Call {
		return admission.Call{
			Mode: doCharge, Tallies: []admission.Tally{d.tally(admission.FixedWindow, 1000, time.Hour)}, Request: fmt.Sprint(i),
		}
	}
	for i := range 64 {
		d.ask(call(i))
	}
	d.ask(call(64)) // of the same subject, whose answers stay
	d.ask(call(3))  // is known
	if n := d.left(call(0).Tallies[0]); n != 1000-65 {
		t.Errorf("%d left", n)
	}
	bob := admission.Call{Mode: doCharge, Tallies: []admission.Tally{d.tallyOf("bob", admission.FixedWindow, 1000, time.Hour)}, Request: "b"}
	for range 2 {
		d.ask(bob) // makes room for one answer, of somebody else
	}
	if n := d.left(bob.Tallies[0]); n != 999 {
		t.Errorf("%d left of bob", n)
	}
	d.ask(call(3)) // is no longer known
	if n := d.left(call(0).Tallies[0]); n != 1000-66 {
		t.Errorf("%d left: an evicted answer is known, or what was counted is not", n)
	}
}

// What one process charged, another one may refund, and a resend may reach either.
func TestRequestsOfTwoGates(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		store, ns := open(newClock()), namespace()
		rules := "- {name: a, subject: user, limit: 3, window: 1h}\n- {name: b, subject: ip, limit: 5, window: 1h, algorithm: gcra}"
		one, other := gate(t, store, ns, rules), gate(t, store, ns, rules)
		req := admission.Request{User: "ann", IP: netip.MustParseAddr("192.0.2.1"), ID: "order 1", Cost: 2}
		first := charge(t, one, req)
		if again := charge(t, other, req); !cmp.Equal(first, again, ignoreReceipt) {
			t.Errorf("the resend was answered %+v, want %+v", again, first)
		}
		look := admission.Request{User: "ann", IP: req.IP}
		if d := check(t, one, look); d.Rules[0].Remaining != 1 || d.Rules[1].Remaining != 3 {
			t.Errorf("charged once: %+v", d)
		}
		for range 2 {
			if d, err := other.RefundRequest(t.Context(), req); err != nil || d.Rules[0].Remaining != 3 || d.Rules[1].Remaining != 5 {
				t.Errorf("refunded: %+v, %v", d, err)
			}
		}
		if err := one.Refund(t.Context(), first); err != nil {
			t.Error(err)
		}
		if d := check(t, one, look); d.Rules[0].Remaining != 3 {
			t.Errorf("refunded twice, by id and by decision: %+v", d)
		}
		req.ID = "order 2"
		if _, err := other.RefundRequest(t.Context(), req); !errors.Is(err, admission.ErrUnknownRequest) {
			t.Errorf("a request that nobody made: %v", err)
		}
	})
}

func TestRefundOfADecision(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		g := gate(t, open(clk), namespace(), `
- {name: log, subject: user, limit: 5, window: 1m}
- {name: counter, subject: ip, limit: 5, window: 1m, algorithm: sliding_counter}
- {name: fixed, subject: device, limit: 5, window: 1m, algorithm: fixed_window}
- {name: even, subject: session, limit: 5, window: 1m, algorithm: gcra}
- {name: base, subject: [user, device], limit: 1, window: 1m, algorithm: base, base: {limit: 4, window: hour}}
- {name: planned, subject: user, limit: 1, window: 1m, shadow: true}
`)
		req := admission.Request{User: "ann", IP: netip.MustParseAddr("192.0.2.1"), Device: "phone", Session: "s", Cost: 2}
		kept := charge(t, g, req)
		clk.Advance(2 * sec)
		failed := charge(t, g, req)
		denied := charge(t, g, req)
		if denied.Admitted {
			t.Fatalf("a sixth unit: %+v", denied)
		}
		for _, d := range []admission.Decision{failed, failed, denied, {}} {
			if err := g.Refund(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		one := req
		one.Cost = 1
		for _, v := range check(t, g, one).Rules {
			if v.Shadow == (v.Remaining == 3) {
				t.Errorf("%s: %d left, want 3", v.Rule, v.Remaining)
			}
		}
		clk.Advance(2 * time.Hour)
		if err := g.Refund(t.Context(), kept); err != nil { // late
			t.Fatal(err)
		}
		for _, v := range check(t, g, one).Rules {
			if !v.Shadow && v.Remaining != 5 {
				t.Errorf("%s: %d left after everything has ended, want 5", v.Rule, v.Remaining)
			}
		}
	})
}
