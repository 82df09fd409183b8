package admission_test

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/admission"
)

// A model decides by the definition: it keeps every unit it ever admitted and counts those that lie in the window. It shares no
// code with the package.
type model struct {
	now   time.Time
	units map[counted][]time.Time
}

type counted struct {
	rule    string
	window  time.Duration
	subject string
}

type modelRule struct {
	name    string
	subject func(admission.Request) string
	limit   int
	window  time.Duration
	cost    int
	shadow  bool
}

func (m *model) count(key counted, at time.Time) int {
	n := 0
	for _, unit := range m.units[key] {
		if unit.Add(key.window).After(at) {
			n++
		}
	}
	return n
}

// decide returns the verdicts of rules on req and whether it is admitted; it counts it if charge.
func (m *model) decide(rules []modelRule, req admission.Request, charge bool) (verdicts []admission.Verdict, admitted bool) {
	admitted = true
	keys := make([]counted, 0, len(rules))
	for _, r := range rules {
		subject := r.subject(req)
		if subject == "" {
			continue
		}
		key := counted{r.name, r.window, subject}
		keys = append(keys, key)
		cost := r.cost * req.Cost
		used := m.count(key, m.now)
		v := admission.Verdict{
			Rule: r.name, Algorithm: admission.SlidingLog, Window: r.window, Limit: r.limit, Shadow: r.shadow,
			Action: admission.ActionAllow, Admitted: used+cost <= r.limit, Remaining: max(0, r.limit-used),
		}
		for _, unit := range m.units[key] {
			v.ResetAfter = max(v.ResetAfter, unit.Add(r.window).Sub(m.now))
		}
		if !v.Admitted {
			v.Action, v.Reason = admission.ActionDeny, admission.RateLimited
			v.RetryAfter = m.wait(key, r.limit-cost)
			admitted = admitted && r.shadow
		}
		verdicts = append(verdicts, v)
	}
	for i := range verdicts {
		if v := &verdicts[i]; charge && admitted && v.Admitted {
			r := rules[slices.IndexFunc(rules, func(r modelRule) bool { return r.name == v.Rule && r.window == v.Window })]
			for range r.cost * req.Cost {
				m.units[keys[i]] = append(m.units[keys[i]], m.now)
			}
			v.Remaining -= r.cost * req.Cost
			v.ResetAfter = r.window
		}
	}
	return verdicts, admitted
}

// wait returns after what time no more than room units of key count: the end of one of them.
func (m *model) wait(key counted, room int) time.Duration {
	ends := slices.Clone(m.units[key])
	slices.SortFunc(ends, time.Time.Compare)
	for _, unit := range ends {
		if end := unit.Add(key.window); end.After(m.now) && m.count(key, end) <= room {
			return end.Sub(m.now)
		}
	}
	return -1
}

const modelText = `
- {name: user, subject: user, windows: [{limit: 3, window: 1s}, {limit: 8, window: 5s}]}
- {name: pair, subject: [ip, device], limit: 12, window: 2s, cost: 3}
- {name: planned, subject: caller, limit: 4, window: 3s, shadow: true}
`

const modelTextLowered = `
- {name: user, subject: user, windows: [{limit: 5, window: 1s}, {limit: 4, window: 5s}]}
- {name: pair, subject: [ip, device], limit: 9, window: 2s, cost: 3}
- {name: planned, subject: caller, limit: 5, window: 3s, shadow: true}
`

func modelRules(user1, user5, pair, planned int) []modelRule {
	user := func(r admission.Request) string { return r.User }
	return []modelRule{
		{"user", user, user1, time.Second, 1, false},
		{"user", user, user5, 5 * time.Second, 1, false},
		{"pair", func(r admission.Request) string {
			if r.Device == "" {
				return ""
			}
			return r.IP.String() + " " + r.Device
		}, pair, 2 * time.Second, 3, false},
		{"planned", func(r admission.Request) string { return cmp.Or(r.User, r.IP.String()) }, planned, 3 * time.Second, 1, true},
	}
}

// Whatever is asked, in whatever order and at whatever time, every store says what the definition says.
func TestStoresAgreeWithTheDefinition(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		rapid.Check(t, func(rt *rapid.T) {
			clk := newClock()
			store, ns := open(clk), namespace()
			gates := []*admission.Gate{gate(t, store, ns, modelText), gate(t, store, ns, modelTextLowered)}
			tables := [][]modelRule{modelRules(3, 8, 12, 4), modelRules(5, 4, 9, 5)}
			m := &model{now: epoch, units: map[counted][]time.Time{}}

			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				// Steps of quarters meet the ends of windows exactly, and those of a µs the times beside them.
				pause := rapid.SampledFrom([]time.Duration{0, 0, 1 * µs, 250 * ms, 250*ms - 1*µs, time.Second, 4 * time.Second})
				clk.Advance(pause.Draw(rt, "pause"))
				m.now = clk.Now()
				inForce := rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(rt, "rules")
				req := admission.Request{
					User:   rapid.SampledFrom([]string{"ann", "ann", "bob", ""}).Draw(rt, "user"),
					Device: rapid.SampledFrom([]string{"", "phone", "desk"}).Draw(rt, "device"),
					IP:     netip.AddrFrom4([4]byte{192, 0, 2, rapid.ByteRange(1, 2).Draw(rt, "ip")}),
					Cost:   rapid.IntRange(1, 3).Draw(rt, "cost"),
				}
				decide, charging := charge, rapid.IntRange(0, 4).Draw(rt, "mode") > 0
				if !charging {
					decide = check
				}
				want, admitted := m.decide(tables[inForce], req, charging)
				got := decide(t, gates[inForce], req)
				if got.Admitted != admitted {
					rt.Fatalf("%+v: admitted %v, want %v", req, got.Admitted, admitted)
				}
				if diff := gocmp.Diff(want, got.Rules); diff != "" {
					rt.Fatalf("%+v (-want +got):\n%s", req, diff)
				}
			}
		})
	})
}
