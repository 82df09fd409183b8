package admission_test

import (
	"errors"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

// A typed rule and the same rule in a file decide alike, and count in the same keys.
func TestTypedRulesDecideAsFilesDo(t *testing.T) {
	office := filepath.Join(t.TempDir(), "office.txt")
	if err := os.WriteFile(office, []byte("ann\n10.0.0.0/8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		typed rules.Rule
		file  string
	}{
		{
			"the smallest",
			rules.Rule{Name: "api", Subject: rules.User, Limit: 2, Window: time.Minute},
			"- {name: api, subject: user, limit: 2, window: 1m}",
		},
		{
			"conditions",
			rules.Rule{
				Name: "api", Subject: rules.Caller, Limit: 1, Window: time.Minute,
				Match: rules.Match{
					"route": rules.In("/v1/**"), "method": rules.In("POST", "PUT"), "user": rules.Not(rules.In("bob")), "plan": rules.Present(),
					"age": rules.AllOf(rules.Above(17.5), rules.Below(100), rules.Whole()), "size": rules.AnyOf(rules.Between(1, 2), rules.In("xl")),
					"ip": rules.AnyOf(rules.CIDR(netip.MustParsePrefix("192.0.2.0/24")), rules.Addresses(netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::9"))),
				},
			},
			`- {name: api, subject: caller, limit: 1, window: 1m, match: {route: /v1/**, method: [POST, PUT], user: {not: bob}, plan: {present: true},
    age: {all: [{above: 17.5}, {below: 100}, {whole: true}]}, size: {any: [{range: [1, 2]}, xl]}, ip: {any: [{cidr: 192.0.2.0/24}, {range: ["2001:db8::1", "2001:db8::9"]}]}}}`,
		},
		{
			"tiers, windows and overrides",
			rules.Rule{
				Name: "api", Subject: rules.Combine(rules.User, rules.Device), Joint: rules.Device, Zone: time.UTC,
				Windows:   []rules.Window{{Tiers: map[string]int{"registered": 2, "gold": rules.Unlimited}, Window: time.Minute}, {Limit: 3, Calendar: rules.Day}},
				Overrides: []rules.Override{{Match: rules.Match{"session": rules.In("vip")}, Limit: rules.Unlimited}},
				Public:    "api", CountRejected: true,
			},
			`- {name: api, subject: [user, device], joint: device, zone: UTC, public: api, count_rejected: true,
    windows: [{limit: {registered: 2, gold: unlimited}, window: 1m}, {limit: 3, window: day}],
    overrides: [{match: {session: vip}, limit: unlimited}]}`,
		},
		{
			"a rate and a ban",
			rules.Rule{
				Name: "api", Subject: rules.User, Algorithm: store.GCRA, Limit: 60, Window: time.Minute, Burst: 2, Cost: 1,
				OnExceed: rules.Exceed{Action: rules.Ban, After: 2, Within: time.Hour, For: time.Minute, Growing: true}, OnStoreError: rules.FailLocal,
			},
			"- {name: api, subject: user, algorithm: gcra, limit: 60, window: 1m, burst: 2, cost: 1, on_store_error: local,\n" +
				"    on_exceed: {action: ban, after: 2, within: 1h, for: 1m, growing: true}}",
		},
		{
			"two stages and a cost",
			rules.Rule{
				Name: "api", Subject: "plan", Algorithm: store.TwoStage, Limit: 1, Window: time.Second, Base: &rules.Base{Limit: 2, Calendar: rules.Hour},
				CostFrom: "age", Shadow: true,
			},
			"- {name: api, subject: plan, algorithm: base, limit: 1, window: 1s, base: {limit: 2, window: hour}, cost: age, shadow: true}",
		},
		{
			"direct",
			rules.Rule{Name: "api", Algorithm: rules.Direct, Action: rules.Challenge, Match: rules.Match{"user": rules.ListFile(office)}},
			"- {name: api, algorithm: direct, action: challenge, match: {user: {list: office}}}\nlists: {office: {file: " + office + "}}",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := newClock()
			open := func(set *rules.Set) *admission.Gate {
				g, err := admission.NewWithStore(memorystore.New(memorystore.Options{Now: clk.Now}), set, admission.Options{Secret: secret, Now: clk.Now})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			typed, file := open(admission.Rules(c.typed)), open(parse(t, c.file))
			refused := 0
			for i := range 60 {
				req := admission.Request{
					User: []string{"ann", "bob", "cat"}[i%3], Device: "phone", Route: "/v1/x", Method: "POST", Session: []string{"", "", "vip"}[i/3%3],
					IP: netip.MustParseAddr("192.0.2.1"), Attributes: map[string]string{"plan": "basic", "age": []string{"18", "99"}[i%2], "size": []string{"2", "xl", "9"}[i/5%3]},
				}
				got, want := charge(t, typed, req), charge(t, file, req)
				if diff := cmp.Diff(want, got, ignoreReceipt, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Version" }, cmp.Ignore())); diff != "" {
					t.Fatalf("request %d (-file +typed):\n%s\n%s", i, diff, typed.Rules().Source())
				}
				if !got.Admitted || len(got.Rules) > 0 && !got.Rules[0].Admitted {
					refused++
				}
				clk.Advance(100 * ms)
			}
			if refused == 0 {
				t.Error("nothing was refused: the rules prove nothing")
			}
		})
	}
}

// The errors of typed rules are those of files, with the rule's name for the position. Nothing invalid comes into force.
func TestWrongTypedRules(t *testing.T) {
	valid := rules.Rule{Name: "api", Subject: rules.User, Limit: 2, Window: time.Minute}
	for want, change := range map[string]func(r *rules.Rule){
		`rule "": name should be a text`: func(r *rules.Rule) { r.Name = "" },
		`rule "api": limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "-2"`: func(r *rules.Rule) { r.Limit = -2 },
		`rule "api": window should be a duration of whole milliseconds`:                                            func(r *rules.Rule) { r.Window = time.Microsecond },
		`here is "both 1m0s and day"`:                                 func(r *rules.Rule) { r.Calendar = rules.Day },
		`here is "both Limit and Tiers"`:                              func(r *rules.Rule) { r.Tiers = map[string]int{"gold": 1} },
		`rule "api" has no subject`:                                   func(r *rules.Rule) { r.Subject = "" },
		`burst is for algorithm: gcra`:                                func(r *rules.Rule) { r.Burst = 5 },
		`rule "api" has limit and windows`:                            func(r *rules.Rule) { r.Windows = []rules.Window{{Limit: 1, Window: time.Hour}} },
		`user should be a text, here is nothing`:                      func(r *rules.Rule) { r.Match = rules.Match{"user": {}} },
		`"\xff" is no value, it should be at most 255 bytes of UTF-8`: func(r *rules.Rule) { r.Match = rules.Match{"user": rules.In("ann", "\xff")} },
		`list "list-1" cannot be read`:                                func(r *rules.Rule) { r.Match = rules.Match{"user": rules.ListFile("/nowhere")} },
		`it is direct`:                                                nil,
		`zone "Local" is unknown`:                                     func(r *rules.Rule) { r.Zone, r.Window, r.Calendar = time.Local, 0, rules.Day },
		`zone "UTC with other offsets" is unknown`: func(r *rules.Rule) {
			r.Zone, r.Window, r.Calendar = time.FixedZone("UTC", 8*3600), 0, rules.Day
		},
		`rule "api": a number of a condition must be between -2^53 and 2^53, got 9.007199254740992e+15`: func(r *rules.Rule) {
			r.Match = rules.Match{"user": rules.Between(1, 9007199254740993)}
		},
		`got NaN`: func(r *rules.Rule) { r.Match = rules.Match{"size": rules.Above(math.NaN())} },
	} {
		r := valid
		if change == nil {
			r.Algorithm, r.Action, want = rules.Direct, rules.Deny, `rule "api" is direct, it counts nothing and has no subject`
		} else {
			change(&r)
		}
		_, err := admission.NewWithStore(memory(), admission.Rules(valid0(), r), admission.Options{Secret: secret})
		var e *rules.Error
		if err == nil || !errors.As(err, &e) && !strings.Contains(want, "list-1") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	g, err := admission.NewWithStore(memory(), admission.Rules(valid), admission.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SetRules(admission.Rules(valid, valid)); err == nil || !strings.Contains(err.Error(), `a second rule is called "api"`) {
		t.Errorf("two rules of one name: %v", err)
	}
	if g.Rules().Err() != nil || !g.Rules().Has("api") {
		t.Error("invalid rules are in force")
	}
}

// A set whose loader returns invalid rules without an error leaves the old ones in force.
func TestReloadRefusesAnInvalidSet(t *testing.T) {
	list := []rules.Rule{valid0()}
	live := rules.NewLive(admission.Rules(list...).Reloadable(func() (*rules.Set, error) { return admission.Rules(list...), nil }), nil)
	list[0].Limit = -2
	if set, err := live.Reload(); err == nil || !set.Has("first") || !live.Failed() {
		t.Errorf("Reload = %v, %v", set.Has("first"), err)
	}
}

// What a caller does to a rule afterwards does not change a set.
func TestASetKeepsItsRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("ann\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := []rules.Rule{valid0()}
	list[0].Match = rules.Match{"user": rules.ListFile(file)}
	set := admission.Rules(list...)
	source := string(set.Source())
	list[0].Limit = 1000
	if err := os.WriteFile(file, []byte("ann\nbob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := rules.NewLive(set, nil).Reload()
	if err != nil || string(again.Source()) != source || again.Version() == set.Version() {
		t.Errorf("after a change of the list: %v, version %s and before %s, rules\n%s", err, again.Version(), set.Version(), again.Source())
	}
}

func valid0() rules.Rule {
	return rules.Rule{Name: "first", Subject: rules.User, Limit: 2, Window: time.Minute}
}
