package admission_test

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission"
)

// Each error stands at its place and says what would be right.
func TestWrongRules(t *testing.T) {
	const rule = "version: 1\nrules:\n  - name: a\n    subject: user\n    limit: 1\n    window: 1s\n"
	for _, c := range []struct{ src, want string }{
		{"", `test.yaml: the file is empty, it should begin with "version: 1"`},
		{"# nothing\n", `test.yaml: the file is empty, it should begin with "version: 1"`},
		{"- a", `test.yaml:1:1: a rules file should be a mapping, such as {key: value}, here is a list`},
		{"version: 2", `test.yaml:1:10: version should be 1, here is "2"`},
		{"version: 1", `test.yaml:1:1: the key "rules" is missing, it should be a list of rules`},
		{"rules: [{name: a, subject: user, limit: 1, window: 1s}]", `test.yaml:1:1: the key "version" is missing, it should be "version: 1"`},
		{"version: 1\nrules: []", `test.yaml:2:8: rules is empty`},
		{"version: 1\nrule: []", `test.yaml:2:1: unknown key "rule": a rules file has version, rules`},
		{"version: 1\nlists: {}", `test.yaml:2:1: unknown key "lists": a rules file has version, rules`},
		{"version: 1\nversion: 1", `test.yaml:2:1: a rules file has "version" twice`},
		{rule + "    burst: 3", `test.yaml:7:5: unknown key "burst": a rule has name, match, subject, limit, window, windows, cost, algorithm, on_store_error, shadow`},
		{rule + "    algorithm: gcra", `test.yaml:7:16: algorithm should be sliding_log, here is "gcra"`},
		{rule + "    on_store_error: local", `test.yaml:7:21: on_store_error should be open or closed, here is "local"`},
		{rule + "    shadow: yes", `test.yaml:7:13: shadow should be true or false, here is "yes"`},
		{rule + "    cost: 0", `test.yaml:7:11: cost should be a whole number from 1 to 1000000, here is "0"`},
		{rule + "    match: {metod: POST}", `test.yaml:7:13: unknown key "metod": match has route, method, tier`},
		{rule + "    match: {method: post}", `test.yaml:7:21: method should be capitals, such as POST, here is "post"`},
		{rule + "    match: {route: v1}", `test.yaml:7:20: route "v1": a route begins with "/", such as "/v1/**"`},
		{rule + "    match: {route: /v1*}", "test.yaml:7:20: route \"/v1*\": `*` and `**` stand for whole segments, such as \"/v1/*/orders\""},
		{rule + "    match: {tier: []}", `test.yaml:7:19: tier is empty`},
		{rule + "    match: {tier: 1}", `test.yaml:7:19: tier should be a text: put it in quotes, "1"`},
		{rule + "    match: {tier: {not: x}}", `test.yaml:7:19: tier should be a text, here is a mapping`},
		{rule + "    match:", `test.yaml:7:12: match should be a mapping, such as {key: value}, here is nothing`},
		{rule + "    windows: [{limit: 1, window: 1s}]", `test.yaml:5:5: rule "a" has limit and windows, it should have either "limit" and "window", or "windows"`},
		{rule + "  - {name: a, subject: ip, limit: 1, window: 1s}", `test.yaml:7:5: a second rule is called "a", names should be unique`},
		{rule + "---\nversion: 1", `test.yaml:8:1: a second document begins here, a rules file is one`},
		{one("name: A"), `test.yaml:3:10: name should be 1 to 64 of a-z 0-9 -, here is "A"`},
		{one("subject: ip"), `test.yaml:3:3: the rule has no name, it should have "name", 1 to 64 of a-z 0-9 -`},
		{one("name: a, limit: 1, window: 1s"), `test.yaml:3:3: rule "a" has no subject, it should say whom it counts, such as "subject: [caller]"`},
		{one("name: a, subject: [user, user]"), `test.yaml:3:29: subject has "user" twice`},
		{one("name: a, subject: User"), `test.yaml:3:22: a part of subject should be user, ip, caller, device, session, or the name of an attribute (a-z 0-9 _), here is "User"`},
		{one("name: a, subject: ip, limit: 1"), `test.yaml:3:3: rule "a" is not complete, it should have either "limit" and "window", or "windows"`},
		{one("name: a, limit: -1"), `test.yaml:3:20: limit should be a whole number from 0 (nobody) to 100000, or unlimited, here is "-1"`},
		{one("name: a, limit: 1.5"), `test.yaml:3:20: limit should be a whole number from 0 (nobody) to 100000, or unlimited, here is "1.5"`},
		{one("name: a, limit: 99999999999999999999"), `test.yaml:3:20: limit should be a whole number from 0 (nobody) to 100000, or unlimited, here is "99999999999999999999"`},
		{one("name: a, limit: many"), `test.yaml:3:20: limit should be a whole number from 0 (nobody) to 100000, or unlimited, here is "many"`},
		{one("name: a, limit: {}"), `test.yaml:3:20: limit is empty, it should be such as {registered: 100, default: 10}`},
		{one("name: a, limit: {x: 1, x: 2}"), `test.yaml:3:27: limit has "x" twice`},
		{one("name: a, window: 60"), `test.yaml:3:21: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, here is "60"`},
		{one("name: a, window: day"), `test.yaml:3:21: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, here is "day"`},
		{one("name: a, windows: [{limit: 1}]"), `test.yaml:3:23: the window is not complete, it should be such as {limit: 5, window: 10s}`},
		{one("name: a, windows: [{limit: 1, window: 1s}, {limit: 2, window: 1000ms}]"), `test.yaml:3:47: a second window is 1s long, the lower limit alone says the same`},
		{one("name: &x a"), `test.yaml:3:10: name should be a text; anchors, aliases and tags are not read, write the value itself`},
		{"version: 1\n\trules: []", "test.yaml:2:1: not YAML: found character '\t' that cannot start any token"},
		{"version: [1", `test.yaml:1:10: not YAML: sequence end token ']' not found`},
		{strings.Repeat("#", 1<<20+1), `test.yaml: the file has 1048577 bytes, at most 1048576 are read`},
	} {
		_, err := admission.ParseRules("test.yaml", []byte(c.src))
		var place *admission.RulesError
		if !errors.As(err, &place) {
			t.Errorf("%.60q: %v is no RulesError", c.src, err)
			continue
		}
		if place.Error() != c.want {
			t.Errorf("%q:\n got %s\nwant %s", c.src, place, c.want)
		}
	}
}

// one is a file with one rule.
func one(rule string) string { return "version: 1\nrules:\n- {" + rule + "}" }

func TestRulesKnowTheirSource(t *testing.T) {
	src := []byte(one("name: a, subject: user, limit: 1, window: 1s"))
	a, err := admission.ParseRules("a.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	b, err := admission.ParseRules("b.yaml", append(bytes.Clone(src), '\n'))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Source(), src) {
		t.Errorf("Source = %q", a.Source())
	}
	if a.Version() == b.Version() || len(a.Version()) != 12 {
		t.Errorf("versions %q and %q of different sources", a.Version(), b.Version())
	}
	src[0], a.Source()[0] = 'x', 'x'
	if a.Source()[0] == 'x' {
		t.Error("rules change with the slice they were made of, or gave")
	}
}

func TestDefaultRules(t *testing.T) {
	home, office := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, c := range []struct {
		name string
		req  admission.Request
		want int // requests admitted of 200 in a row
	}{
		{"registered", admission.Request{User: "ann", IP: home, Method: "POST", Route: "/v1/sales/spring/orders"}, 100},
		{"anonymous", admission.Request{IP: home, Method: "POST", Route: "/v1/sales/spring/orders"}, 10},
		{"following an order", admission.Request{IP: home, Method: "GET", Route: "/v1/orders/1"}, 200},
		{"one's orders", admission.Request{IP: home, Method: "GET", Route: "/v1/sales/spring/orders"}, 200},
		{"reading a sale", admission.Request{IP: home, Method: "GET", Route: "/v1/sales/spring"}, 200},
	} {
		g := defaults(t)
		admitted := 0
		for range 200 {
			if charge(t, g, c.req).Admitted {
				admitted++
			}
		}
		if admitted != c.want {
			t.Errorf("%s: %d of 200 admitted, want %d", c.name, admitted, c.want)
		}
	}

	// 600 users at one address, each of whom tries as often as a user may, and one more.
	g := defaults(t)
	for i := range 601 {
		req := user(i)
		req.IP, req.Method, req.Route, req.Cost = office, "POST", "/v1/sales/spring/orders", 100
		switch d := charge(t, g, req); {
		case i < 600 && !d.Admitted:
			t.Fatalf("user %d of one address: %+v", i, d)
		case i == 600 && (d.Admitted || d.Rule != "orders-per-address"):
			t.Errorf("beyond 60,000 orders of one address: %+v", d)
		}
	}
}

func defaults(t *testing.T) *admission.Gate {
	t.Helper()
	g, err := admission.New(admission.NewMemoryStore(admission.MemoryOptions{}), admission.DefaultRules(), admission.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Whatever a file holds, it is either rules or an error with a place, and never a crash.
func FuzzRules(f *testing.F) {
	f.Add(admission.DefaultRules().Source())
	for _, s := range []string{
		one("name: a, subject: [user, ip], windows: [{limit: {x: 1, default: unlimited}, window: 1s}], cost: 2, shadow: true"),
		one("name: a, subject: caller, match: {route: [/a/*, /**], method: [GET, PUT], tier: x}, limit: 0, window: 24h"),
		one("name: &a b, <<: *a"), "version: 1\n---\n---\nrules: !!x", "a: {b: [}", "\t", "? a\n: b", "- |\n  a", "version: 0x1", "{}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := admission.ParseRules("fuzz.yaml", src)
		if err != nil {
			var place *admission.RulesError
			if r != nil || !errors.As(err, &place) || place.Problem == "" || place.Line < 0 || place.Column < 0 {
				t.Errorf("%v, %v", r, err)
			}
			return
		}
		if !bytes.Equal(r.Source(), src) {
			t.Error("Source is not what was parsed")
		}
		again, err := admission.ParseRules("again.yaml", r.Source())
		if err != nil || again.Version() != r.Version() {
			t.Errorf("parsed again: %v", err)
		}
		g, err := admission.New(admission.NewMemoryStore(admission.MemoryOptions{}), r, admission.Options{Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		d, err := g.Charge(t.Context(), admission.Request{User: "ann", Route: "/v1/a", Method: "POST"})
		if err != nil || d.Admitted == (d.Reason != "") {
			t.Errorf("decided %+v, %v", d, err)
		}
	})
}
