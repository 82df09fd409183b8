package admission_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/testenv"
)

// Three hits in the first half second, seven in each of the next two, three in the last, ten a second allowed. A counter that starts
// anew each second admits all twenty, fourteen of them between 0.5 and 1.5 s.
func TestNoSecondHoldsMoreThanTheLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		g := gate(t, open(clk), namespace(), "- {name: r, subject: user, limit: 10, window: 1s}")
		var admitted []time.Duration
		for half, hits := range []int{3, 7, 7, 3} {
			for i := range hits {
				at := time.Duration(half)*500*ms + time.Duration(i)*500*ms/time.Duration(hits)
				clk.At(at)
				if charge(t, g, admission.Request{User: "ann"}).Admitted {
					admitted = append(admitted, at)
				}
			}
		}
		if want := 3 + 7 + 3 + 3; len(admitted) != want {
			t.Errorf("admitted %d hits, want %d", len(admitted), want)
		}
		for i, from := range admitted {
			n := 0
			for _, at := range admitted[i:] {
				if at < from+time.Second {
					n++
				}
			}
			if n > 10 {
				t.Errorf("%d hits admitted in the second from %v", n, from)
			}
		}
	})
}

func TestExactlyTheLimitUnderConcurrency(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		const limit = 100
		callers := testenv.Size(300, 1000)
		store, ns := open(nil), namespace()
		rules := "- {name: user, subject: user, limit: 100, window: 5m}\n" +
			"- {name: device, subject: device, limit: 5000, window: 5m}"
		gates := []*admission.Gate{gate(t, store, ns, rules), gate(t, store, ns, rules)} // two processes
		req := admission.Request{User: "ann", Device: "phone"}

		var (
			wg       sync.WaitGroup
			mu       sync.Mutex
			admitted int
			begin    = make(chan struct{})
		)
		for i := range callers {
			wg.Go(func() {
				<-begin
				d, err := gates[i%2].Charge(t.Context(), req)
				if err != nil || d.Degraded {
					t.Errorf("Charge = %+v, %v", d, err)
				}
				if d.Admitted {
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			})
		}
		close(begin)
		wg.Wait()
		if admitted != limit {
			t.Errorf("admitted %d of %d callers, want %d", admitted, callers, limit)
		}
		// What the other rule denied was counted nowhere, or was taken back.
		d := check(t, gates[0], req)
		if got := d.Rules[1].Remaining; got != 5000-limit {
			t.Errorf("%d units left of the second rule, want %d", got, 5000-limit)
		}
	})
}

func TestAllOrNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		g := gate(t, open(clk), namespace(), `
- {name: user, subject: user, limit: 5, window: 10s}
- {name: address, subject: ip, limit: 3, window: 1s}
- {name: session, subject: session, limit: 1, window: 2s}
- {name: device, subject: device, limit: 9, window: 1s}
`)
		req := admission.Request{User: "ann", IP: netip.MustParseAddr("192.0.2.1"), Session: "s1", Device: "phone"}
		if d := charge(t, g, req); !d.Admitted || d.Rule != "session" || d.Remaining != 0 {
			t.Fatalf("first: %+v", d)
		}
		clk.At(500 * ms)
		for range 10 {
			want := admission.Decision{
				Action: rules.Deny, Reason: admission.RateLimited, Rule: "session", Limit: 1,
				RetryAfter: 1500 * ms, ResetAfter: 1500 * ms, Version: g.Rules().Version(), At: clk.Now(),
				Rules: []admission.Verdict{
					had("user", 10*time.Second, 5, 4, 9500*ms),
					had("address", time.Second, 3, 2, 500*ms),
					{
						Rule: "session", Algorithm: store.SlidingLog, Window: 2 * time.Second, Limit: 1,
						Action: rules.Deny, Reason: admission.RateLimited, RetryAfter: 1500 * ms, ResetAfter: 1500 * ms,
					},
					had("device", time.Second, 9, 8, 500*ms),
				},
			}
			if diff := cmp.Diff(want, charge(t, g, req), ignoreReceipt); diff != "" {
				t.Fatalf("denied (-want +got):\n%s", diff)
			}
		}
		req.Session = "s2"
		if d := charge(t, g, req); !d.Admitted || d.Rules[0].Remaining != 3 || d.Rules[1].Remaining != 1 {
			t.Errorf("another session: %+v", d)
		}
	})
}

// had is the verdict of a sliding log with room.
func had(rule string, window time.Duration, limit, remaining int, resetAfter time.Duration) admission.Verdict {
	return admission.Verdict{
		Rule: rule, Algorithm: store.SlidingLog, Window: window, Limit: limit, Action: rules.Allow, Admitted: true,
		Remaining: remaining, ResetAfter: resetAfter,
	}
}

// A limit of 0 is refused without the store, but the rules beside it need its tally, so that they do not count the refused request.
func TestALimitOfZeroChargesNobodyElse(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		g := gate(t, open(newClock()), namespace(), `
- {name: user, subject: user, limit: 5, window: 10s}
- {name: nobody, subject: ip, limit: 0, window: 10s}
- {name: all, subject: user, limit: 5, window: 10s, algorithm: gcra, count_rejected: true}
`)
		req := admission.Request{User: "ann", IP: netip.MustParseAddr("192.0.2.1")}
		if d := charge(t, g, req); d.Admitted || d.Rule != "nobody" || d.Reason != admission.CostAboveLimit {
			t.Errorf("%+v", d)
		}
		for i, left := range []int{5, 0, 4} {
			if v := check(t, g, req).Rules[i]; v.Remaining != left {
				t.Errorf("%s has %d left, want %d", v.Rule, v.Remaining, left)
			}
		}
	})
}

func TestEveryViolatedRuleIsNamedAndTheLongestWaitDecides(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		g := gate(t, open(newClock()), namespace(), `
- {name: short, subject: user, limit: 1, window: 1s}
- {name: long, subject: ip, windows: [{limit: 1, window: 1m}, {limit: 5, window: 1h}]}
`)
		req := admission.Request{User: "ann", IP: netip.MustParseAddr("192.0.2.1")}
		charge(t, g, req)
		d := charge(t, g, req)
		if d.Admitted || d.Rule != "long" || d.RetryAfter != time.Minute {
			t.Errorf("decided by %+v", d)
		}
		var denied []string
		for _, v := range d.Rules {
			if !v.Admitted {
				denied = append(denied, v.Rule+" "+v.Window.String())
			}
		}
		if diff := cmp.Diff([]string{"short 1s", "long 1m0s"}, denied); diff != "" {
			t.Errorf("violated (-want +got):\n%s", diff)
		}
	})
}

func TestShadowCountsButNeverDenies(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		g := gate(t, open(clk), namespace(), `
- {name: planned, subject: ip, limit: 1, window: 1s, shadow: true}
- {name: real, subject: user, limit: 3, window: 1s}
`)
		req := admission.Request{User: "ann", IP: netip.MustParseAddr("192.0.2.1")}
		for i, shadowAdmits := range []bool{true, false, false} {
			d := charge(t, g, req)
			if !d.Admitted || d.Rule != "real" || d.Remaining != 2-i {
				t.Fatalf("hit %d: %+v", i, d)
			}
			if v := d.Rules[0]; !v.Shadow || v.Admitted != shadowAdmits {
				t.Errorf("hit %d: the shadow says %+v", i, v)
			}
		}
		if d := charge(t, g, req); d.Admitted || d.Rule != "real" {
			t.Fatalf("fourth hit: %+v", d)
		}
		clk.At(time.Second)
		if d := charge(t, g, req); !d.Rules[0].Admitted {
			t.Errorf("a second later: %+v", d.Rules[0])
		}
	})
}

func TestCheckCountsNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		g := gate(t, open(newClock()), namespace(), "- {name: r, subject: user, limit: 2, window: 1s}")
		req := admission.Request{User: "ann"}
		for range 5 {
			if d := check(t, g, req); !d.Admitted || d.Remaining != 2 || d.ResetAfter != 0 {
				t.Fatalf("Check of a new subject: %+v", d)
			}
		}
		charge(t, g, req)
		charge(t, g, req)
		if d := check(t, g, req); d.Admitted || d.RetryAfter != time.Second || d.Reason != admission.RateLimited {
			t.Errorf("Check of a full window: %+v", d)
		}
	})
}

// A changed limit applies to the units already counted; a changed window starts from zero.
func TestRulesChangeWhileCountsStay(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		store, ns := open(clk), namespace()
		ten := gate(t, store, ns, "- {name: r, subject: user, limit: 10, window: 10s}")
		req := admission.Request{User: "ann"}
		for i := range 10 {
			clk.At(time.Duration(i) * time.Second)
			charge(t, ten, req)
		}
		clk.At(9500 * ms)

		four := gate(t, store, ns, "- {name: r, subject: user, limit: 4, window: 10s}")
		if d := charge(t, four, req); d.Admitted || d.Remaining != 0 || d.RetryAfter != 6500*ms || d.ResetAfter != 9500*ms {
			t.Errorf("lowered to 4, where 10 count: %+v", d)
		}
		clk.At(16 * time.Second)
		if d := charge(t, four, req); !d.Admitted || d.Remaining != 0 {
			t.Errorf("lowered to 4, where 3 count: %+v", d)
		}
		twelve := gate(t, store, ns, "- {name: r, subject: user, limit: 12, window: 10s}")
		if d := charge(t, twelve, req); !d.Admitted || d.Remaining != 7 {
			t.Errorf("raised to 12, where 4 count: %+v", d)
		}
		longer := gate(t, store, ns, "- {name: r, subject: user, limit: 4, window: 11s}")
		if d := charge(t, longer, req); d.Remaining != 3 {
			t.Errorf("another length: %+v", d)
		}
	})
}

// The store may have counted the request already, so its answer is worth waiting for.
func TestACallerWhoHangsUpIsStillDecided(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		g := gate(t, open(nil), namespace(), "- {name: r, subject: user, limit: 1, window: 1m}")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if d, err := g.Charge(ctx, admission.Request{User: "ann"}); err != nil || !d.Admitted || d.Degraded {
			t.Errorf("Charge = %+v, %v", d, err)
		}
	})
}
