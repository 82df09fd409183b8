package admission_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

func TestRulesKnowTheirSource(t *testing.T) {
	src := []byte(one("name: a, subject: user, limit: 1, window: 1s"))
	a, err := rules.Parse("a.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	b, err := rules.Parse("b.yaml", append(bytes.Clone(src), '\n'))
	if err != nil {
		t.Fatal(err)
	}
	c, err := rules.Parse("c.yaml", append([]byte("\ufeff"), src...)) // as some editors save it
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Source(), src) || !bytes.Equal(c.Source(), src) || a.Version() != c.Version() {
		t.Errorf("Source = %q, %q behind a byte order mark", a.Source(), c.Source())
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
	home := netip.MustParseAddr("192.0.2.1")
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

	// Users who send as many requests as a user may, from one address or one site, and one more.
	for _, c := range []struct {
		rule  string
		users int
		at    func(i int) string
	}{
		{"orders-per-address", 600, func(int) string { return "192.0.2.2" }},
		{"orders-per-address", 600, func(i int) string { return fmt.Sprintf("2001:db8:1:2::%x", i) }},
		{"orders-per-network", 2400, func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i) }},
	} {
		g := defaults(t)
		for i := range c.users + 1 {
			req := user(i)
			req.IP, req.Method, req.Route, req.Cost = netip.MustParseAddr(c.at(i)), "POST", "/v1/sales/spring/orders", 100
			switch d := charge(t, g, req); {
			case i < c.users && !d.Admitted:
				t.Fatalf("%s: user %d: %+v", c.rule, i, d)
			case i == c.users && (d.Admitted || d.Rule != c.rule):
				t.Errorf("%s: beyond %d orders: %+v", c.rule, 100*c.users, d)
			}
		}
	}
}

func defaults(t *testing.T) *admission.Gate {
	t.Helper()
	store := memorystore.New(memorystore.Options{Now: newClock().Now})
	g, err := admission.NewWithStore(store, rules.Default(), admission.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// everything is a file with all that files may have.
const everything = `
version: 1
lists:
  office: {values: [ann, 192.0.2.1, 10.0.0.0/8, "2001:db8::/32"]}
rules:
  - name: api
    match: {route: "/v1/**"}
    subject: [caller]
    limit: {registered: 100, anonymous: 10, default: 50}
    window: 1m
  - name: order-burst
    match: {route: "/v1/sales/*/orders", method: POST}
    subject: [user]
    windows: [{limit: 5, window: 10s}, {limit: 20, window: 10m}]
    overrides: [{match: {user: {list: office}}, limit: unlimited}]
    on_exceed: {action: ban, after: 30, within: 1m, for: 10m, growing: true, at_most: 24h}
    on_store_error: closed
  - name: daily-export
    match: {route: "/v1/export", tier: registered, plan: {not: gold}, ip: {cidr: ["10.0.0.0/8", "fd00::/8"]}, size: {range: [1, 1000]}}
    subject: [user, plan]
    joint: [plan]
    algorithm: fixed_window
    limit: 3
    window: day
    zone: Asia/Shanghai
    on_exceed: challenge
    shadow: true
  - {name: office-free, match: {ip: {list: office}}, algorithm: direct, action: allow}
bans: {allow: [office], run: ["/usr/local/bin/block-ip"], per_minute: 30, widest_v4: 16, widest_v6: 32}
semaphores: {report: {limit: 2, lease: 15s}}
login:
  - {count: name, limit: 3, window: 1m, then: challenge, for: 10m}
`

// A file of semaphores, or of logins, needs no rules, and then limits no request.
func TestFilesWithoutRules(t *testing.T) {
	for _, text := range []string{
		"semaphores: {report: {limit: 2}}",
		"rules: []\nsemaphores: {report: {limit: 2}}",
		"login: [{count: name, limit: 3, window: 1m, then: challenge}]",
	} {
		set, err := rules.Parse("test.yaml", []byte("version: 1\n"+text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		g, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), set, admission.Options{Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		if d, err := g.Charge(t.Context(), admission.Request{User: "u"}); err != nil || !d.Admitted {
			t.Errorf("%s: %+v %v", text, d, err)
		}
		if warnings := rules.Lint(set, rules.Server{TrustedProxies: true}); len(warnings) > 1 {
			t.Errorf("%s: %v", text, warnings)
		}
	}
}

// Whatever a file holds, it is either rules or an error with a place, and never a crash.
func FuzzRules(f *testing.F) {
	f.Add(rules.Default().Source())
	f.Add([]byte(everything))
	for _, s := range []string{
		one("name: a, subject: user, algorithm: sliding_log, limit: 100000, window: 1s, count_rejected: true"),
		one("name: a, subject: user, algorithm: sliding_counter, limit: 1000000000, window: 1s"),
		one("name: a, subject: user, algorithm: fixed_window, limit: 3, window: month, zone: Europe/Berlin"),
		one("name: a, subject: user, algorithm: gcra, limit: 10, window: 1s, burst: 20"),
		one("name: a, subject: user, algorithm: base, limit: 1, window: 1m, base: {limit: 3, window: day}"),
		one("name: a, algorithm: direct, action: challenge, match: {ip: {range: [10.0.0.1, 10.0.0.9], not: 10.0.0.3}}"),
		one("name: a, subject: user, limit: 3, window: 1m, cost: size, match: {size: {range: [1, 1000.5]}, plan: {present: false}}"),
		one("name: a, subject: [user, ip], windows: [{limit: {x: 1, default: unlimited}, window: 1s}], cost: 2, shadow: true"),
		one("name: a, subject: caller, match: {route: [/a/*, /**], method: [GET, PUT], tier: x}, limit: 0, window: 24h"),
		one("name: &a b, <<: *a"), "version: 1\n---\n---\nrules: !!x", "a: {b: [}", "\t", "? a\n: b", "- |\n  a", "version: 0x1", "{}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := rules.Parse("fuzz.yaml", src)
		if err != nil {
			var place *rules.Error
			if r != nil || !errors.As(err, &place) || place.Problem == "" || place.Line < 0 || place.Column < 0 {
				t.Errorf("%v, %v", r, err)
			}
			return
		}
		if !bytes.Equal(r.Source(), src) {
			t.Error("Source is not what was parsed")
		}
		again, err := rules.Parse("again.yaml", r.Source())
		if err != nil || again.Version() != r.Version() {
			t.Errorf("parsed again: %v", err)
		}
		g, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), r, admission.Options{Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		d, err := g.Charge(t.Context(), admission.Request{User: "ann", Route: "/v1/a", Method: "POST"})
		if errors.Is(err, admission.ErrInvalidRequest) {
			return // an attribute is the cost, and the request lacks it
		}
		if err != nil || d.Admitted == (d.Reason != "") {
			t.Errorf("decided %+v, %v", d, err)
		}
	})
}
