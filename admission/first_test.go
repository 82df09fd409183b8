package admission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
)

const first = "\nanswer: first"

// The result of each order of the same rules, with the given numbers of counted units.
func TestTheFirstThatRefusesAnswers(t *testing.T) {
	const (
		user     = "- {name: user, subject: user, limit: 1, window: 1m}\n"
		wide     = "- {name: wide, subject: user, limit: 3, window: 1m}\n"
		long     = "- {name: long, subject: user, limit: 1, window: 1h}\n"
		both     = "- {name: both, subject: user, windows: [{limit: 1, window: 1m}, {limit: 2, window: 1h}]}\n"
		captcha  = "- {name: captcha, subject: user, limit: 1, window: 1m, on_exceed: challenge}\n"
		nobody   = "- {name: nobody, subject: user, limit: 0, window: 1m}\n"
		planned  = "- {name: planned, subject: user, limit: 1, window: 1m, shadow: true}\n"
		ban      = "- {name: ban, subject: user, limit: 1, window: 1m, on_exceed: {action: ban, after: 1}}\n"
		gold     = "- {name: gold, subject: user, limit: 1, window: 1m, overrides: [{match: {user: ann}, limit: 9}]}\n"
		pass     = "- {name: pass, algorithm: direct, action: allow}\n"
		forbid   = "- {name: forbid, algorithm: direct, action: deny}\n"
		ask      = "- {name: ask, algorithm: direct, action: challenge}\n"
		forbidNo = "- {name: forbid-no, algorithm: direct, action: deny, shadow: true}\n"
	)
	for _, c := range []struct {
		name   string
		used   int
		rules  string
		solved bool
		want   string // rule, action, reason, retry after
		named  string // rules that the decision tells of, in their order
	}{
		{"none: the one with the least left, or the longest", 0, user + long, false, "long allow  0s", "user long"},
		{"a weak one above a strong one", 1, captcha + user, false, "captcha challenge captcha_required 1m0s", "captcha user"},
		{"a short wait above a long one", 1, user + long, false, "user deny rate_limited 1m0s", "user long"},
		{"a long wait above a short one", 1, long + user, false, "long deny rate_limited 1h0m0s", "long user"},
		{"one with room above", 1, wide + user, false, "user deny rate_limited 1m0s", "wide user"},
		{"another limit above", 1, gold + user, false, "user deny rate_limited 1m0s", "gold user"},
		{"of two windows the longer wait", 2, both + long, false, "both deny rate_limited 1h0m0s", "both both long"},
		{"nobody, below", 1, user + nobody, false, "user deny rate_limited 1m0s", "user nobody"},
		{"nobody, above", 1, nobody + user, false, "nobody deny cost_above_limit 0s", "nobody user"},
		{"a shadow above", 1, planned + user, false, "user deny rate_limited 1m0s", "planned user"},
		{"a shadow above a direct one", 1, planned + forbid, false, "forbid deny forbidden 0s", "planned forbid"},
		{"a ban below", 1, user + ban, false, "user deny rate_limited 1m0s", "user ban"},
		{"a ban above", 1, ban + user, false, "ban ban banned 10m0s", "ban user"},

		{"direct below what was exceeded", 1, user + forbid, false, "user deny rate_limited 1m0s", "user forbid"},
		{"direct below what was not", 0, user + forbid, false, "forbid deny forbidden 0s", "user forbid"},
		{"direct above", 1, forbid + user, false, "forbid deny forbidden 0s", "forbid"},
		{"direct below nobody", 1, nobody + forbid, false, "nobody deny cost_above_limit 0s", "nobody forbid"},
		{"two direct ones", 1, ask + forbid, false, "ask challenge captcha_required 0s", "ask"},
		{"a direct shadow", 1, forbidNo + user, false, "user deny rate_limited 1m0s", "forbid-no user"},
		{"allowed above", 1, pass + user + forbid, false, "  allow  0s", "pass"},
		{"allowed below", 1, user + pass + forbid, false, "user deny rate_limited 1m0s", "user pass"},

		{"solved, a direct challenge", 1, ask + user, true, "user deny rate_limited 1m0s", "ask user"},
		{"solved, two direct ones", 1, ask + forbid, true, "forbid deny forbidden 0s", "forbid"},
		{"solved, a challenge above", 1, captcha + user, true, "user deny rate_limited 1m0s", "captcha user"},
		{"solved, a challenge above a direct one", 1, captcha + forbid, true, "forbid deny forbidden 0s", "captcha forbid"},
	} {
		for _, kind := range kinds[:3] {
			t.Run(c.name+"/"+kind.name, func(t *testing.T) {
				g := gate(t, kind.open(t)(newClock()), namespace(), c.rules+first)
				req := admission.Request{User: "ann"}
				for range c.used {
					if err := g.Add(t.Context(), req); err != nil {
						t.Fatal(err)
					}
				}
				before := leftBy(t, g, req)
				req.Solved = c.solved
				d := charge(t, g, req)
				if got := fmt.Sprintf("%s %s %s %v", d.Rule, d.Action, d.Reason, d.RetryAfter); got != strings.TrimPrefix(c.want, " ") {
					t.Errorf("%q, want %q", got, c.want)
				}
				var named []string
				for _, v := range d.Rules {
					named = append(named, v.Rule)
				}
				if got := strings.Join(named, " "); got != c.named {
					t.Errorf("told of %s, want %s", got, c.named)
				}
				if after := leftBy(t, g, req); !d.Admitted && !cmp.Equal(before, after) {
					t.Errorf("a refusal was counted: left %v, before %v", after, before)
				}
			})
		}
	}
}

// What a direct rule refuses is no strike and counts nowhere, also not for a rule above it that has been exceeded.
func TestADirectRefusalStrikesNobody(t *testing.T) {
	for _, order := range []string{"", first} {
		g := gate(t, memory(), "ns", `
- {name: ban, subject: user, algorithm: fixed_window, limit: 1, window: 1h, count_rejected: true, on_exceed: {action: ban, after: 2}}
- {name: forbid, match: {device: bad}, algorithm: direct, action: deny}`+order)
		ann := admission.Request{User: "ann", Device: "bad"}
		for range 5 {
			if d := charge(t, g, ann); d.Admitted || d.Action != deny {
				t.Fatalf("%+v", d)
			}
		}
		ann.Device = ""
		for i, want := range []rules.Action{allow, deny, rules.Ban} {
			if d := charge(t, g, ann); d.Action != want {
				t.Errorf("request %d%s: %+v, want %s", i, order, d, want)
			}
		}
	}
}

// A denial that is remembered names no rule while one above it may refuse by now.
func TestTheFirstThatRefusesAnswersFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, `
- {name: planned, subject: user, limit: 1, window: 1h, shadow: true}
- {name: user, subject: user, limit: 2, window: 1h}
- {name: nobody, match: {session: closed}, subject: device, limit: 0, window: 1h}
- {name: device, subject: device, limit: 1, window: 1h}
- {name: forbid, match: {session: bad}, algorithm: direct, action: deny}`+first)
		ann := func(session string) admission.Request {
			return admission.Request{User: "ann", Device: "phone", Session: session}
		}
		for i, s := range []struct {
			req   admission.Request
			want  string
			asked int
		}{
			{ann(""), "device", 1},    // admits, with none left
			{ann(""), "device", 1},    // refuses
			{ann(""), "device", 1},    // user may by now
			{ann("bad"), "device", 1}, // so it is asked, and nothing counted
			{ann("closed"), "nobody", 1},
			{admission.Request{User: "ann"}, "user", 1},
			{ann(""), "user", 1}, // which is remembered now
			{ann(""), "user", 0},
			{ann("closed"), "user", 0},
			{ann("bad"), "user", 1},
			{admission.Request{Device: "phone"}, "device", 0},
			{admission.Request{Device: "phone", Session: "closed"}, "nobody", 0},
		} {
			d := charge(t, g, s.req)
			if asked := store.asked(); d.Rule != s.want || asked != s.asked {
				t.Errorf("%d: %s answers after %d questions, want %s after %d", i, d.Rule, asked, s.want, s.asked)
			}
		}
	})
}

// While the store is unavailable, the first of the rules that can decide counts.
func TestTheFirstThatRefusesAnswersWithoutTheStore(t *testing.T) {
	const (
		local  = "- {name: local, subject: user, limit: 1, window: 1h, on_store_error: local}\n"
		open   = "- {name: open, subject: user, limit: 1, window: 1h}\n"
		closed = "- {name: closed, subject: user, limit: 1, window: 1h, on_store_error: closed}\n"
		nobody = "- {name: nobody, subject: user, limit: 0, window: 1h}\n"
		forbid = "- {name: forbid, match: {device: bad}, algorithm: direct, action: deny}\n"
		free   = "- {name: free, match: {device: good}, algorithm: direct, action: allow}\n"
	)
	unavailable := "unavailable"
	for _, c := range []struct {
		name, rules, device string
		want                []string // who answers the first request, and who the second
		degraded            bool
		named               string // rules that the second decision tells of
	}{
		{"local above direct", local + forbid, "bad", []string{"forbid", "forbid"}, true, "local forbid"},
		{"local above direct, which does not match", local + forbid, "", []string{"local", "local"}, true, "local"},
		{"direct above local", forbid + local, "bad", []string{"forbid", "forbid"}, false, "forbid"},
		{"local above nobody", local + nobody, "", []string{"nobody", "nobody"}, true, "local nobody"},
		{"nobody above local", nobody + local, "", []string{"nobody", "nobody"}, false, "nobody"},
		{"open above direct", open + forbid, "bad", []string{"forbid", "forbid"}, true, "forbid"},
		{"closed above direct", closed + local + forbid, "bad", []string{"forbid", "forbid"}, true, "local forbid"},
		{"closed and local", local + closed, "", []string{unavailable, unavailable}, false, ""},
		{"local, then allowed", local + free + nobody, "good", []string{"local", "local"}, true, "local free"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := gate(t, &down{}, "ns", c.rules+first)
			for i, want := range c.want {
				d, err := g.Charge(t.Context(), admission.Request{User: "ann", Device: c.device})
				got := d.Rule
				if errors.Is(err, admission.ErrUnavailable) {
					got = unavailable
				}
				if got != want || d.Degraded != c.degraded {
					t.Errorf("request %d: %+v, %v, want %s, degraded %v", i, d, err, want, c.degraded)
				}
				var named []string
				for _, v := range d.Rules {
					named = append(named, v.Rule)
				}
				if got := strings.Join(named, " "); got != c.named {
					t.Errorf("request %d: told of %s, want %s", i, got, c.named)
				}
			}
		})
	}

	// Once it is exceeded here, local is the first.
	g := gate(t, &down{}, "ns", local+forbid+first)
	for i, c := range []struct{ device, want string }{{"bad", "forbid"}, {"bad", "forbid"}, {"", "local"}, {"bad", "local"}, {"", "local"}} {
		d, err := g.Charge(t.Context(), admission.Request{User: "ann", Device: c.device})
		if err != nil || d.Rule != c.want || d.Admitted != (i == 2) || !d.Degraded {
			t.Errorf("request %d: %+v, %v, want %s", i, d, err, c.want)
		}
	}
}

// What a rule makes of a caller is the same in every order.
func TestExplanationsKnowNoOrder(t *testing.T) {
	const rules = `
- {name: user, subject: user, limit: 1, window: 1h}
- {name: forbid, algorithm: direct, action: deny}
- {name: device, subject: device, limit: 2, window: 1h}`
	ann := admission.Request{User: "ann", Device: "phone"}
	var explained []admission.Explanation
	for _, order := range []string{"", first} {
		g := gate(t, memory(), "ns", rules+order)
		if err := g.Add(t.Context(), ann); err != nil {
			t.Fatal(err)
		}
		e, err := g.Explain(t.Context(), ann)
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.Rules {
			for j := range e.Rules[i].Windows {
				e.Rules[i].Windows[j].RetryAfter, e.Rules[i].Windows[j].ResetAfter = 0, 0 // on a clock that goes on
			}
		}
		e.Version = ""
		explained = append(explained, e)
	}
	if diff := cmp.Diff(explained[0], explained[1]); diff != "" || len(explained[0].Rules) != 3 {
		t.Errorf("strongest, and first (-want +got):\n%s", diff)
	}
}
