package admission_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
)

// leftBy returns how many units each rule has left for req, as Explain reports them, also behind a direct rule that would end the search.
func leftBy(t *testing.T, g *admission.Gate, req admission.Request) map[string]int {
	t.Helper()
	e, err := g.Explain(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for _, s := range e.Rules {
		for _, v := range s.Windows {
			left[s.Rule] = v.Remaining
		}
	}
	return left
}

// Add counts in every rule that matches, past its limit, whatever direct rules say and however often the ID has been seen.
func TestAddCountsWhatHasHappened(t *testing.T) {
	const rules = `
- {name: free, match: {device: free}, algorithm: direct, action: allow}
- {name: shut, match: {session: shut}, algorithm: direct, action: deny}
- {name: user, subject: user, algorithm: fixed_window, limit: 2, window: 1h}
- {name: nobody, subject: user, algorithm: fixed_window, limit: 0, window: 1h}
- {name: address, subject: ip, limit: 5, window: 1h, cost: 2}
- {name: planned, subject: user, algorithm: fixed_window, limit: 1, window: 1h, shadow: true}
- {name: elsewhere, match: {route: /x}, subject: user, limit: 5, window: 1h}
- {name: session, subject: session, limit: 5, window: 1h, on_exceed: challenge}
%s`
	eachStore(t, func(t *testing.T, open opener) {
		g := gate(t, open(newClock()), namespace(), fmt.Sprintf(rules, ""))
		req := admission.Request{
			User: "ann", Device: "free", IP: netip.MustParseAddr("192.0.2.1"), Session: "shut", Route: "/y", ID: "one", Solved: true,
		}
		for _, of := range []string{"", "answer: first"} {
			setRules(t, g, parse(t, fmt.Sprintf(rules, of)))
			for range 2 {
				if err := g.Add(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := map[string]int{"user": 0, "nobody": 0, "address": 0, "planned": 0, "elsewhere": 5, "session": 1}
		if diff := cmp.Diff(want, leftBy(t, g, req)); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		setRules(t, g, parse(t, `
- {name: user, subject: user, algorithm: fixed_window, limit: 10, window: 1h}
- {name: nobody, subject: user, algorithm: fixed_window, limit: 10, window: 1h}
- {name: planned, subject: user, algorithm: fixed_window, limit: 10, window: 1h}`))
		if diff := cmp.Diff(map[string]int{"user": 6, "nobody": 10, "planned": 6}, leftBy(t, g, req)); diff != "" {
			t.Errorf("left of 10 (-want +got):\n%s", diff)
		}
	})
}

// Check, do the business, Add: what comes in between is let in as well, and what was added is refused for from then on.
func TestAddAfterCheck(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		g := gate(t, open(clk), namespace(), "- {name: r, subject: user, limit: 2, window: 1m}")
		req := admission.Request{User: "ann"}
		for range 3 { // three at the same time
			if !check(t, g, req).Admitted {
				t.Fatal("refused before anything was counted")
			}
		}
		for range 3 {
			if err := g.Add(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			clk.Advance(time.Second)
		}
		// The newest two are kept, of 1 and 2 s.
		if d := check(t, g, req); d.Admitted || d.RetryAfter != 58*time.Second {
			t.Errorf("%+v, want to come back in 58s", d)
		}
	})
}

// Add and Erase go on when their caller hangs up, as a charge does.
func TestAddAndEraseByWhoHungUp(t *testing.T) {
	g := gate(t, heedful{memory()}, "ns", "- {name: r, subject: user, limit: 5, window: 1m}")
	req := admission.Request{User: "ann"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Add(ctx, admission.Request{User: "ann", Cost: 3}); err != nil {
		t.Error(err)
	}
	if err := g.Erase(ctx, req, map[string]int{"r": 1}); err != nil {
		t.Error(err)
	}
	if d := check(t, g, req); d.Remaining != 3 {
		t.Errorf("%d left, want 3", d.Remaining)
	}
}

func TestAddAndEraseOfInvalidRequests(t *testing.T) {
	g := gate(t, memory(), "ns", "- {name: r, subject: user, limit: 5, window: 1m, cost: size}")
	for _, req := range []admission.Request{
		{User: "ann", Cost: -1},
		{User: "ann", Cost: rules.MaxCost + 1},
		{User: "ann"}, // its cost is missing
		{User: "ann", Attributes: map[string]string{"size": "many"}},
	} {
		if err := g.Add(t.Context(), req); !errors.Is(err, admission.ErrInvalidRequest) {
			t.Errorf("Add(%+v) = %v", req, err)
		}
		if err := g.Erase(t.Context(), req, map[string]int{"r": 1}); !errors.Is(err, admission.ErrInvalidRequest) {
			t.Errorf("Erase(%+v) = %v", req, err)
		}
	}
	if err := g.Add(t.Context(), admission.Request{Device: "phone"}); err != nil { // whom no rule counts
		t.Errorf("Add of nobody: %v", err)
	}
}

// While the store is unavailable Add counts in local rules, whatever other rules there are.
func TestAddWithoutTheStore(t *testing.T) {
	const local = "- {name: local, subject: user, algorithm: fixed_window, limit: 10, window: 1h, on_store_error: local}\n"
	for _, c := range []struct {
		name, rules string
		cost        int
		left        int // of local, after two
		err         error
	}{
		{"alone", local, 1, 8, nil},
		{"beside an open one", local + "- {name: o, subject: user, limit: 1, window: 1m}", 1, 8, nil},
		{"beyond the limit", local, 7, 0, nil},
		{"a cost above the limit of another", local + "- {name: o, subject: user, limit: 1, window: 1m}", 2, 6, nil},
		{"where nobody is let in", "- {name: o, subject: user, limit: 0, window: 1m}\n" + local, 1, 8, nil},
		{"behind a direct one", "- {name: o, algorithm: direct, action: deny}\n" + local, 1, 8, nil},
		{"beside a closed one", local + "- {name: o, subject: user, limit: 5, window: 1m, on_store_error: closed}", 1, 10, admission.ErrUnavailable},
		{"first", local + "- {name: o, subject: user, limit: 0, window: 1m}\nanswer: first", 1, 8, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &down{}
			g := gate(t, store, "ns", c.rules)
			for range 2 {
				if err := g.Add(t.Context(), admission.Request{User: "ann", Cost: c.cost}); !errors.Is(err, c.err) || c.err == nil && err != nil {
					t.Fatalf("Add = %v, want %v", err, c.err)
				}
			}
			setRules(t, g, parse(t, local))
			if d, err := g.Check(t.Context(), admission.Request{User: "ann"}); err != nil || !d.Degraded || d.Remaining != c.left {
				t.Errorf("%+v, %v, want %d left", d, err, c.left)
			}
			if store.asked == 0 {
				t.Error("the store was not asked")
			}
		})
	}
}

// Erase takes from the sliding logs of those rules that match and are named.
func TestGateErase(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		clk := newClock()
		g := gate(t, open(clk), namespace(), `
- {name: shut, match: {session: shut}, algorithm: direct, action: deny}
- {name: user, subject: user, limit: 5, window: 1h}
- {name: address, subject: ip, limit: 5, window: 1h}
- {name: number, subject: user, algorithm: fixed_window, limit: 5, window: 1h}
- {name: elsewhere, match: {route: /x}, subject: user, limit: 5, window: 1h}
- {name: other, subject: user, limit: 5, window: 1h}
- {name: free, subject: user, algorithm: sliding_log, limit: unlimited, window: 1h}
`)
		ann := admission.Request{User: "ann", IP: netip.MustParseAddr("192.0.2.1")}
		there := ann
		there.Route = "/x"
		bob := admission.Request{User: "bob"}
		for range 3 {
			charge(t, g, there)
			charge(t, g, bob)
			clk.Advance(time.Second)
		}
		ann.Session = "shut" // which does not matter here
		units := map[string]int{"user": 2, "address": 9, "number": 1, "elsewhere": 1, "other": 0, "free": 1}
		if err := g.Erase(t.Context(), ann, units); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"user": 4, "address": 5, "number": 2, "elsewhere": 2, "other": 2, "free": rules.Unlimited}
		if diff := cmp.Diff(want, leftBy(t, g, ann)); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if left := leftBy(t, g, bob)["user"]; left != 2 {
			t.Errorf("bob has %d left, want 2", left)
		}
		// The oldest is left, which came 3 s ago.
		ann.Session = ""
		if v := check(t, g, ann).Rules[0]; v.ResetAfter != time.Hour-3*time.Second {
			t.Errorf("%+v", v)
		}
	})
}

func TestEraseWithoutTheStore(t *testing.T) {
	store := &down{}
	g := gate(t, store, "ns", `
- {name: r, subject: user, limit: 5, window: 1m, on_store_error: local}
- {name: number, subject: user, algorithm: fixed_window, limit: 5, window: 1m}`)
	ann := admission.Request{User: "ann"}
	for _, units := range []map[string]int{nil, {"r": 0}, {"number": 1}} {
		if err := g.Erase(t.Context(), ann, units); err != nil || store.asked != 0 {
			t.Errorf("Erase of %v: %v, asked %d times", units, err, store.asked)
		}
	}
	if err := g.Erase(t.Context(), ann, map[string]int{"r": 1, "tpyo": 1}); !errors.Is(err, admission.ErrUnknownRule) || store.asked != 0 {
		t.Errorf("a rule that is not there: %v", err)
	}
	if err := g.Erase(t.Context(), ann, map[string]int{"r": -1}); !errors.Is(err, admission.ErrInvalidRequest) || store.asked != 0 {
		t.Errorf("less than nothing: %v", err)
	}
	if err := g.Erase(t.Context(), ann, map[string]int{"r": 1}); !errors.Is(err, admission.ErrUnavailable) || !errors.Is(err, errDown) {
		t.Errorf("Erase = %v", err)
	}
}

// P16: a refused request is admitted once units are erased, in this process and in others.
func TestEraseEndsADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rules = "- {name: r, subject: user, limit: 1, window: 1m}"
		g, store := watch(t, rules)
		other := quickGate(t, store, rules)
		defer running(t, other)()
		ann := admission.Request{User: "ann"}
		for range 2 {
			charge(t, g, ann)
			charge(t, other, ann)
		}
		for _, here := range []*admission.Gate{g, other} {
			store.asked()
			if charge(t, here, ann).Admitted || store.asked() != 0 {
				t.Fatal("not refused from memory")
			}
			if err := g.Erase(t.Context(), ann, map[string]int{"r": 1}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if d := charge(t, here, ann); !d.Admitted {
				t.Errorf("after it: %+v", d)
			}
			for range 2 {
				charge(t, other, ann)
			}
		}
	})
}
