package admission_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/storetest"
)

func TestAMemoryFullOfRequests(t *testing.T) {
	clk := newClock()
	d := storetest.NewDesk(t, memorystore.New(memorystore.Options{MaxSubjects: 64, Now: clk.Now}), clk)
	call := func(i int) store.Call {
		return store.Call{
			Mode: store.Charge, Tallies: []store.Tally{d.Tally(store.FixedWindow, 1000, time.Hour)}, Request: fmt.Sprint(i),
		}
	}
	for i := range 64 {
		d.Ask(call(i))
	}
	d.Ask(call(64)) // of the same subject, whose answers stay
	d.Ask(call(3))  // is known
	if n := d.Left(call(0).Tallies[0]); n != 1000-65 {
		t.Errorf("%d left", n)
	}
	bob := store.Call{Mode: store.Charge, Tallies: []store.Tally{d.TallyOf("bob", store.FixedWindow, 1000, time.Hour)}, Request: "b"}
	for range 2 {
		d.Ask(bob) // makes room for one answer, of somebody else
	}
	if n := d.Left(bob.Tallies[0]); n != 999 {
		t.Errorf("%d left of bob", n)
	}
	d.Ask(call(3)) // is no longer known
	if n := d.Left(call(0).Tallies[0]); n != 1000-66 {
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

func TestRefundOfAChargeThatIsNoLongerRecorded(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		g := gate(t, open(newClock()), namespace(), "- {name: log, subject: user, limit: 5, window: 1m}")
		req := admission.Request{User: "ann", ID: "order 1"}
		d := charge(t, g, req)
		if _, err := g.Reset(t.Context(), req, ""); err != nil {
			t.Fatal(err)
		}
		if err := g.Refund(t.Context(), d); !errors.Is(err, admission.ErrUnknownRequest) {
			t.Errorf("refunded: %v, want %v", err, admission.ErrUnknownRequest)
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
