package admission_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/bans"
)

func TestWhatARuleMatches(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		rule string
		req  admission.Request
		want bool
	}{
		{"subject: user", admission.Request{User: "ann"}, true},
		{"subject: user", admission.Request{IP: ip}, false},
		{"subject: ip", admission.Request{IP: ip}, true},
		{"subject: ip", admission.Request{User: "ann"}, false},
		{"subject: caller", admission.Request{User: "ann"}, true},
		{"subject: caller", admission.Request{IP: ip}, true},
		{"subject: caller", admission.Request{}, false},
		{"subject: [user, device]", admission.Request{User: "ann"}, false},
		{"subject: [user, device]", admission.Request{User: "ann", Device: "d"}, true},
		{"subject: session", admission.Request{Session: "s"}, true},
		{"subject: plan", admission.Request{Attributes: map[string]string{"plan": "gold"}}, true},
		{"subject: plan", admission.Request{User: "ann"}, false},
		{"subject: user, match: {method: POST}", admission.Request{User: "ann", Method: "POST"}, true},
		{"subject: user, match: {method: POST}", admission.Request{User: "ann", Method: "GET"}, false},
		{"subject: user, match: {method: [PUT, POST]}", admission.Request{User: "ann", Method: "POST"}, true},
		{"subject: caller, match: {tier: registered}", admission.Request{User: "ann"}, true},
		{"subject: caller, match: {tier: registered}", admission.Request{IP: ip}, false},
		{"subject: caller, match: {tier: anonymous}", admission.Request{IP: ip}, true},
		{"subject: caller, match: {tier: registered}", admission.Request{User: "ann", Tier: "gold"}, false},
		{`subject: user, match: {route: ["/a", "/b/*"]}`, admission.Request{User: "ann", Route: "/b/c"}, true},
		{`subject: user, match: {route: ["/a", "/b/*"]}`, admission.Request{User: "ann", Route: "/c"}, false},
		{`subject: user, match: {route: "/a", method: POST}`, admission.Request{User: "ann", Route: "/a", Method: "GET"}, false},
	} {
		g := gate(t, memorystore.New(memorystore.Options{}), "ns", "- {name: r, limit: 1, window: 1s, "+c.rule+"}")
		if got := g.Holds(c.req); got != c.want {
			t.Errorf("{%s} matches %+v: %v, want %v", c.rule, c.req, got, c.want)
		}
	}
}

func TestLimitsByTier(t *testing.T) {
	for _, c := range []struct {
		limit, tier string
		want        int
	}{
		{"7", "gold", 7},
		{"{registered: 100, anonymous: 10, default: 50}", "registered", 100},
		{"{registered: 100, anonymous: 10, default: 50}", "anonymous", 10},
		{"{registered: 100, anonymous: 10, default: 50}", "gold", 50},
		{"{registered: 100, anonymous: 10}", "gold", 10}, // the lowest, rather than none
		{"{registered: unlimited, anonymous: 10}", "gold", 10},
		{"{registered: 5, default: unlimited}", "gold", rules.Unlimited},
		{"unlimited", "gold", rules.Unlimited},
	} {
		g := gate(t, memorystore.New(memorystore.Options{}), "ns", "- {name: r, subject: user, window: 1s, limit: "+c.limit+"}")
		d := check(t, g, admission.Request{User: "ann", Tier: c.tier})
		if v := d.Rules[0]; !d.Admitted || v.Limit != c.want || v.Remaining != c.want || d.Limit != c.want {
			t.Errorf("limit %s for %s: %+v, want %d", c.limit, c.tier, d, c.want)
		}
	}
}

func TestOneNetworkOneSubject(t *testing.T) {
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"fe80::1%eth0", "fe80::1%eth1", true},
	} {
		g := gate(t, memorystore.New(memorystore.Options{}), "ns", "- {name: r, subject: ip, limit: 1, window: 1m}")
		charge(t, g, admission.Request{IP: netip.MustParseAddr(c.one)})
		if d := charge(t, g, admission.Request{IP: netip.MustParseAddr(c.other)}); d.Admitted == c.same {
			t.Errorf("%s and %s count together: %v, want %v", c.one, c.other, !d.Admitted, c.same)
		}
	}
}

// down is a store that never answers well.
type down struct {
	store.Store
	asked int
}

var errDown = errors.New("down")

func (*down) Bans() bans.Store { return bans.NewMemoryStore(nil) }

func (s *down) Decide(context.Context, store.Call) ([]store.Count, error) {
	s.asked++
	return nil, errDown
}

// heedful counts only requests whose context has not ended.
type heedful struct{ store.Store }

func (s heedful) Decide(ctx context.Context, call store.Call) ([]store.Count, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Store.Decide(ctx, call)
}

func TestAHangUpDoesNotTearADecision(t *testing.T) {
	g := gate(t, heedful{memorystore.New(memorystore.Options{})}, "ns", "- {name: r, subject: user, limit: 1, window: 1m}")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, admitted := range []bool{true, false} {
		if d, err := g.Charge(ctx, admission.Request{User: "ann"}); err != nil || d.Degraded || d.Admitted != admitted {
			t.Errorf("%+v, %v, want admitted %v", d, err, admitted)
		}
	}
}

func TestWithoutTheStore(t *testing.T) {
	const (
		open       = "- {name: open, subject: user, limit: 1, window: 1s}\n"
		closed     = "- {name: closed, subject: user, limit: 1, window: 1s, on_store_error: closed}\n"
		elsewhere  = "- {name: elsewhere, subject: user, match: {route: /x}, limit: 1, window: 1s, on_store_error: closed}\n"
		planned    = "- {name: planned, subject: user, limit: 1, window: 1s, on_store_error: closed, shadow: true}\n"
		nobody     = "- {name: nobody, subject: user, limit: 0, window: 1s}\n"
		nobodyPlan = "- {name: nobody, subject: user, limit: 0, window: 1s, shadow: true}\n"
		everybody  = "- {name: everybody, subject: user, limit: unlimited, window: 1s, on_store_error: closed}\n"
	)
	for _, c := range []struct {
		name, text string
		cost       int
		admitted   bool
		degraded   bool
		reason     admission.Reason
		err        error
		asked      int
	}{
		{"open rules admit", open, 1, true, true, "", nil, 1},
		{"one closed rule refuses to decide", open + closed, 1, false, false, "", admission.ErrUnavailable, 1},
		{"a closed rule that does not match has no say", open + elsewhere, 1, true, true, "", nil, 1},
		{"a shadow has no say", open + planned, 1, true, true, "", nil, 1},
		{"nobody means nobody", open + nobody, 1, false, false, admission.CostAboveLimit, nil, 1},
		{"nobody asks no store", nobody, 1, false, false, admission.CostAboveLimit, nil, 0},
		{"nobody comes before a closed rule", closed + nobody, 1, false, false, admission.CostAboveLimit, nil, 1},
		{"a shadow nobody denies nobody", nobodyPlan, 1, true, false, "", nil, 0},
		{"a cost above the limit is refused", open, 2, false, false, admission.CostAboveLimit, nil, 1},
		{"unlimited asks no store", everybody, 1, true, false, "", nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &down{}
			g := gate(t, store, "ns", c.text)
			d, err := g.Charge(t.Context(), admission.Request{User: "ann", Cost: c.cost})
			if !errors.Is(err, c.err) || c.err != nil && !errors.Is(err, errDown) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if d.Admitted != c.admitted || d.Degraded != c.degraded || d.Reason != c.reason || store.asked != c.asked {
				t.Errorf("%+v after asking %d times", d, store.asked)
			}
			if c.reason == admission.CostAboveLimit && (d.RetryAfter != 0 || d.Rule == "" || d.Action != rules.Deny) {
				t.Errorf("refused for good: %+v", d)
			}
		})
	}
}

func TestNoRuleNoLimit(t *testing.T) {
	g, err := admission.NewWithStore(&down{}, rules.Default(), admission.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	d := charge(t, g, admission.Request{User: "ann", Route: "/v1/orders/1", Method: "GET"})
	if !d.Admitted || d.Action != rules.Allow || d.Limit != rules.Unlimited || d.Remaining != rules.Unlimited || len(d.Rules) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestInvalid(t *testing.T) {
	store, set := memorystore.New(memorystore.Options{}), rules.Default()
	for _, c := range []struct {
		opts admission.Options
		want string
	}{
		{admission.Options{}, "Options.Secret"},
		{admission.Options{Secret: secret[:15]}, "Options.Secret"},
		{admission.Options{Secret: secret, Namespace: "a{b}"}, "Options.Namespace"},
		{admission.Options{Secret: secret, Timeout: -1}, "Options.Timeout"},
	} {
		if _, err := admission.NewWithStore(store, set, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New with %+v: %v, want an error about %s", c.opts, err, c.want)
		}
	}
	if _, err := admission.NewWithStore(nil, set, admission.Options{Secret: secret}); err == nil {
		t.Error("New takes no store")
	}
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 1m}")
	for _, cost := range []int{-1, rules.MaxCost + 1} {
		if _, err := g.Charge(t.Context(), admission.Request{User: "ann", Cost: cost}); !errors.Is(err, admission.ErrInvalidRequest) {
			t.Errorf("cost %d: %v", cost, err)
		}
	}
}
