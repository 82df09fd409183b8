package admission_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

// An attempt is a request and what should come of it.
type attempt struct {
	req    admission.Request
	action rules.Action
	reason admission.Reason
	rule   string // that decided
	limit  int
}

const nobodyLimits = rules.Unlimited

var (
	allow     = rules.Allow
	deny      = rules.Deny
	challenge = rules.Challenge
	asAnn     = admission.Request{User: "ann"}
	asBob     = admission.Request{User: "bob"}
	asGold    = admission.Request{User: "ann", Tier: "gold"}
)

// What the parts of a rule do, request by request.
func TestRuleParts(t *testing.T) {
	phone := func(user, device string) admission.Request { return admission.Request{User: user, Device: device} }
	size := func(size string) admission.Request {
		return admission.Request{User: "ann", Attributes: map[string]string{"size": size}}
	}
	for _, c := range []struct {
		name, rules string
		attempts    []attempt
	}{
		{"a rule that does not match limits nothing", "- {name: r, match: {user: bob}, subject: user, limit: 0, window: 1s}", []attempt{
			{asAnn, allow, "", "", nobodyLimits},
			{asBob, deny, admission.CostAboveLimit, "r", 0},
		}},
		{"who lacks a part of the subject is not counted", "- {name: r, subject: [user, device], limit: 1, window: 1s}", []attempt{
			{asAnn, allow, "", "", nobodyLimits},
			{phone("ann", "phone"), allow, "", "r", 1},
			{phone("ann", "phone"), deny, admission.RateLimited, "r", 1},
			{phone("ann", "tablet"), allow, "", "r", 1},
		}},
		{"joint counts all values of a part together", "- {name: r, subject: [user, device], joint: device, limit: 1, window: 1s}", []attempt{
			{asAnn, allow, "", "", nobodyLimits}, // without a device
			{phone("ann", "phone"), allow, "", "r", 1},
			{phone("ann", "tablet"), deny, admission.RateLimited, "r", 1},
			{phone("bob", "tablet"), allow, "", "r", 1},
		}},
		{"a caller is a user or else an address", "- {name: r, subject: caller, limit: 1, window: 1s}", []attempt{
			{from("192.0.2.1"), allow, "", "r", 1},
			{admission.Request{User: "ann", IP: netip.MustParseAddr("192.0.2.1")}, allow, "", "r", 1},
			{admission.Request{User: "192.0.2.1"}, allow, "", "r", 1},
			{asAnn, deny, admission.RateLimited, "r", 1},
		}},
		{"a network is a site of IPv6", "- {name: r, subject: network, limit: 1, window: 1s}", []attempt{
			{from("2001:db8:1:2::3"), allow, "", "r", 1},
			{from("2001:db8:1:ffff::9%eth0"), deny, admission.RateLimited, "r", 1},
			{from("2001:db8:2::1"), allow, "", "r", 1},
			{from("192.0.2.1"), allow, "", "", nobodyLimits},
			{from("::ffff:192.0.2.1"), allow, "", "", nobodyLimits},
		}},
		{"tiers", "- {name: r, subject: user, limit: {gold: 2, silver: unlimited, default: 1}, window: 1s}", []attempt{
			{asGold, allow, "", "r", 2},
			{asGold, allow, "", "r", 2},
			{asGold, deny, admission.RateLimited, "r", 2},
			{asAnn, deny, admission.RateLimited, "r", 1}, // the same subject with a lower limit
			{admission.Request{User: "ann", Tier: "silver"}, allow, "", "", nobodyLimits},
			{admission.Request{User: "bob", Tier: "lead"}, allow, "", "r", 1},
		}},
		{"a tier that is not mentioned has the lowest limit", "- {name: r, subject: user, limit: {gold: 5, silver: 3}, window: 1s}", []attempt{
			{asAnn, allow, "", "r", 3},
		}},
		{"the first override that matches counts", `- name: r
  subject: user
  limit: 1
  window: 1s
  overrides:
    - {match: {tier: gold}, limit: {gold: 3, default: 9}}
    - {match: {user: [ann, bob]}, limit: unlimited}
    - {match: {user: bob}, limit: 0}
    - {match: {user: eve}, limit: 0}`, []attempt{
			{asGold, allow, "", "r", 3},
			{asAnn, allow, "", "", nobodyLimits},
			{asBob, allow, "", "", nobodyLimits},
			{admission.Request{User: "eve"}, deny, admission.CostAboveLimit, "r", 0},
			{admission.Request{User: "joe"}, allow, "", "r", 1},
		}},
		{"overrides of several windows find theirs by length", `- name: r
  subject: user
  windows: [{limit: 5, window: 1m}, {limit: 9, window: day}]
  algorithm: fixed_window
  overrides: [{match: {tier: gold}, windows: [{limit: 2, window: day}, {limit: 7, window: 60s}]}]`, []attempt{
			{asGold, allow, "", "r", 2},
			{asGold, allow, "", "r", 2},
			{asGold, deny, admission.RateLimited, "r", 2},
			{asBob, allow, "", "r", 5},
		}},
		{"an attribute is the cost", "- {name: r, subject: user, limit: 10, window: 1s, cost: size}", []attempt{
			{size("7"), allow, "", "r", 10},
			{size("4"), deny, admission.RateLimited, "r", 10},
			{size("3"), allow, "", "r", 10},
			{size("11"), deny, admission.CostAboveLimit, "r", 10},
		}},
		{"a direct allow ends the search", `
- {name: before, subject: user, limit: 1, window: 1s}
- {name: free, match: {user: ann}, algorithm: direct, action: allow}
- {name: after, subject: user, limit: 0, window: 1s}`, []attempt{
			{asAnn, allow, "", "before", 1},
			{asAnn, deny, admission.RateLimited, "before", 1},
			{asBob, deny, admission.CostAboveLimit, "after", 0},
		}},
		{"a direct allow in shadow ends nothing", `
- {name: free, algorithm: direct, action: allow, shadow: true}
- {name: after, subject: user, limit: 0, window: 1s}`, []attempt{
			{asAnn, deny, admission.CostAboveLimit, "after", 0},
		}},
		{"a direct deny", `
- {name: counts, subject: user, limit: 1, window: 1s}
- {name: out, match: {user: ann}, algorithm: direct, action: deny}
- {name: free, algorithm: direct, action: allow}`, []attempt{
			{asAnn, deny, admission.Forbidden, "out", nobodyLimits},
			{asBob, allow, "", "counts", 1},
		}},
		{"a direct deny in shadow", "- {name: out, algorithm: direct, action: deny, shadow: true}", []attempt{
			{asAnn, allow, "", "", nobodyLimits},
		}},
		{"a direct challenge", "- {name: prove, algorithm: direct, action: challenge}", []attempt{
			{asAnn, challenge, admission.CaptchaRequired, "prove", nobodyLimits},
		}},
		{"too many are challenged, too much is denied", "- {name: r, subject: user, limit: 1, window: 1s, on_exceed: challenge}", []attempt{
			{asAnn, allow, "", "r", 1},
			{asAnn, challenge, admission.CaptchaRequired, "r", 1},
			{admission.Request{User: "ann", Cost: 2}, deny, admission.CostAboveLimit, "r", 1},
		}},
		{"a denial is stronger than a challenge", `
- {name: soft, subject: user, limit: 1, window: 1m, on_exceed: challenge}
- {name: hard, subject: user, limit: 1, window: 1s}`, []attempt{
			{asAnn, allow, "", "soft", 1},
			{asAnn, deny, admission.RateLimited, "hard", 1},
		}},
		{"a shadow refuses nobody", "- {name: r, subject: user, limit: 1, window: 1s, shadow: true}", []attempt{
			{asAnn, allow, "", "", nobodyLimits},
			{asAnn, allow, "", "", nobodyLimits},
		}},
	} {
		g := gate(t, memorystore.New(memorystore.Options{Now: newClock().Now}), namespace(), c.rules)
		for i, want := range c.attempts {
			d := charge(t, g, want.req)
			if got := (attempt{want.req, d.Action, d.Reason, d.Rule, d.Limit}); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: attempt %d:\n got %+v\nwant %+v", c.name, i, got, want)
			}
		}
	}
}

// A cost that is not a number is an error: the request cannot be decided.
func TestACostThatIsMissing(t *testing.T) {
	g := gate(t, memory(), namespace(), "- {name: r, match: {method: POST}, subject: user, limit: 10, window: 1s, cost: size}")
	for _, size := range []string{"", "many", "0", "-1", "1.5", "1000001", " 1", "99999999999999999999"} {
		req := with("size", size)
		req.User, req.Method = "ann", "POST"
		_, err := g.Charge(t.Context(), req)
		if !errors.Is(err, admission.ErrInvalidRequest) || !strings.Contains(err.Error(), "attribute size is "+fmt.Sprintf("%q", size)) {
			t.Errorf("size %q: %v", size, err)
		}
	}
	if d := charge(t, g, asAnn); !d.Admitted {
		t.Errorf("a request that the rule does not match: %+v", d)
	}
	if e, err := g.Explain(t.Context(), asAnn); err != nil || len(e.Rules) != 1 {
		t.Errorf("an explanation needs no cost: %+v, %v", e, err)
	}
}

// The highest limit of all tiers selects the default algorithm.
func TestDefaultAlgorithms(t *testing.T) {
	for rules, want := range map[string]store.Algorithm{
		"limit: 128, window: 1s":                                                     store.SlidingLog,
		"limit: 129, window: 1s":                                                     store.SlidingCounter,
		"limit: {gold: 129, default: 1}, window: 1s":                                 store.SlidingCounter,
		"limit: {gold: 1, default: 129}, window: 1s":                                 store.SlidingCounter,
		"limit: {gold: unlimited, x: 128}, window: 1s":                               store.SlidingLog,
		"limit: 1, window: day":                                                      store.FixedWindow,
		"limit: 1000, window: month, zone: Asia/Tokyo":                               store.FixedWindow,
		"limit: 1000, window: 1s, algorithm: gcra":                                   store.GCRA,
		"limit: 1000, window: 1s, algorithm: sliding_log":                            store.SlidingLog,
		"limit: 5, window: 1s, overrides: [{match: {tier: gold}, limit: 129}]":       store.SlidingCounter,
		"limit: 5, window: 1s, overrides: [{match: {tier: gold}, limit: unlimited}]": store.SlidingLog,
	} {
		d := charge(t, gate(t, memory(), namespace(), "- {name: r, subject: user, "+rules+"}"), asAnn)
		if got := d.Rules[0].Algorithm; got != want {
			t.Errorf("%s: %s, want %s", rules, got, want)
		}
	}
}

// Each rule is explained, whether it applies or not, and why it does not.
func TestExplanations(t *testing.T) {
	g := gate(t, memorystore.New(memorystore.Options{Now: newClock().Now}), namespace(), `
- {name: posts, match: {method: POST, plan: {not: gold}}, subject: user, limit: 5, window: 1m}
- {name: devices, subject: [user, device], limit: 5, window: 1m}
- {name: office, match: {ip: {cidr: [10.0.0.0/8, 192.168.0.0/16]}}, algorithm: direct, action: allow}
- {name: all, subject: user, limit: 9, window: 1m}
`)
	req := admission.Request{User: "ann", Method: "POST"}
	charge(t, g, req)
	req.Method = "GET"
	e, err := g.Explain(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range e.Rules {
		left := ""
		for _, w := range s.Windows {
			left += fmt.Sprintf(" %d of %d", w.Remaining, w.Limit)
		}
		got = append(got, fmt.Sprintf("%s %v%s: %s", s.Rule, s.Applies, left, s.Reason))
	}
	want := []string{
		"posts false 4 of 5: method: POST",
		"devices false: the request has no device, and the rule counts by it",
		"office false: ip: {cidr: [10.0.0.0/8, 192.168.0.0/16]}",
		"all true 8 of 9: ",
	}
	same(t, "the explanation", got, want)
	if e.Version != g.Rules().Version() || e.Ban != nil || e.Allowed != "" {
		t.Errorf("explained %+v", e)
	}
}

// P30: a raised limit admits at once what the old one denied, and a lowered one denies.
func TestPitfall_P30_ARaisedLimitActsAtOnce(t *testing.T) {
	for _, algorithm := range []string{"sliding_log", "sliding_counter", "fixed_window"} {
		store := memorystore.New(memorystore.Options{Now: newClock().Now})
		set := func(limit int) *rules.Set {
			return parse(t, fmt.Sprintf("- {name: r, subject: user, limit: %d, window: 1m, algorithm: %s}", limit, algorithm))
		}
		g, err := admission.NewWithStore(store, set(2), admission.Options{Secret: secret, Timeout: patience}) // with its deny cache
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			limit int
			want  bool
		}{{2, true}, {2, true}, {2, false}, {4, true}, {4, true}, {4, false}, {3, false}} {
			setRules(t, g, set(c.limit))
			if d := charge(t, g, asAnn); d.Admitted != c.want {
				t.Errorf("%s: with limit %d: %+v, want admitted %v", algorithm, c.limit, d, c.want)
			}
		}
	}
}

// A caller with a lower limit on the same counter takes nothing off it.
func TestALowerLimitForgetsNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		for _, algorithm := range []string{"sliding_log", "sliding_counter", "fixed_window", "gcra"} {
			g := gate(t, open(newClock()), namespace(), fmt.Sprintf(`
- {name: r, subject: user, limit: 50, window: 1h, algorithm: %s, overrides: [{match: {route: /export}, limit: 5}]}`, algorithm))
			for range 50 {
				if d := charge(t, g, asAnn); !d.Admitted {
					t.Fatalf("%s: %+v", algorithm, d)
				}
			}
			for range 2 {
				export := admission.Request{User: "ann", Route: "/export"}
				if d := check(t, g, export); d.Admitted {
					t.Errorf("%s: %+v with the lower limit", algorithm, d)
				}
				if d := charge(t, g, export); d.Admitted {
					t.Errorf("%s: %+v with the lower limit", algorithm, d)
				}
				if d := charge(t, g, asAnn); d.Admitted {
					t.Errorf("%s: %+v", algorithm, d)
				}
			}
		}
	})
}

// The output distinguishes windows of a fixed length from calendar windows.
func TestWindowsAsTheyAreTold(t *testing.T) {
	for window, want := range map[string]time.Duration{"90s": 90 * time.Second, "hour": time.Hour, "month": 720 * time.Hour} {
		d := charge(t, gate(t, memory(), namespace(), "- {name: r, subject: user, limit: 1, window: "+window+"}"), asAnn)
		if got := d.Rules[0].Window; got != want {
			t.Errorf("%s is told as %v, want %v", window, got, want)
		}
	}
}
