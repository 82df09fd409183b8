package admission_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

func from(ip string) admission.Request { return admission.Request{IP: netip.MustParseAddr(ip)} }

func with(name, value string) admission.Request {
	return admission.Request{Attributes: map[string]string{name: value}}
}

// Every form of a condition, and whom it takes.
func TestConditions(t *testing.T) {
	nobody := admission.Request{}
	for _, c := range []struct {
		match string
		req   admission.Request
		want  bool
	}{
		// A value, or any of several.
		{"plan: gold", with("plan", "gold"), true},
		{"plan: gold", with("plan", "Gold"), false},
		{"plan: gold", with("plan", "gold "), false},
		{"plan: gold", nobody, false},
		{"plan: [gold, silver]", with("plan", "silver"), true},
		{"plan: [gold, silver]", with("plan", "lead"), false},
		{"size: 10", with("size", "10"), true},
		{"size: 10", with("size", "10.0"), false}, // a value is a text
		{"beta: true", with("beta", "true"), true},
		{"user: ann", admission.Request{User: "ann"}, true},
		{"device: phone", admission.Request{Device: "phone"}, true},
		{"session: s1", admission.Request{Session: "s1"}, true},
		{"session: s1", admission.Request{User: "s1"}, false},
		{"method: [PUT, POST]", admission.Request{Method: "POST"}, true},
		{"method: POST", admission.Request{Method: "post"}, false},
		{"tier: registered", admission.Request{User: "ann"}, true},
		{"tier: registered", admission.Request{User: "ann", Tier: "gold"}, false},
		{"tier: anonymous", nobody, true},
		{"route: /v1/**", admission.Request{Route: "/v1/a/b"}, true},
		{"route: [/a, /v1/*]", admission.Request{Route: "/v1/a"}, true},
		{"route: [/a, /v1/*]", admission.Request{Route: "/v1/a/b"}, false},
		{"ip: 192.0.2.1", from("192.0.2.1"), true},
		{"ip: 192.0.2.1", from("::ffff:192.0.2.1"), true},
		{"ip: '::ffff:192.0.2.1'", from("192.0.2.1"), true},
		{"ip: 192.0.2.1", from("192.0.2.2"), false},
		{"ip: 192.0.2.1", nobody, false},
		{"ip: 'fe80::1'", from("fe80::1%eth0"), true},
		{"ip: [192.0.2.1, '2001:db8::1']", from("2001:db8:0::1"), true},

		// Not.
		{"plan: {not: gold}", with("plan", "lead"), true},
		{"plan: {not: gold}", with("plan", "gold"), false},
		{"plan: {not: gold}", nobody, true}, // what is missing is not gold
		{"plan: {not: [gold, silver]}", with("plan", "silver"), false},
		{"plan: {not: {not: gold}}", with("plan", "gold"), true},
		{"plan: {not: gold, present: true}", nobody, false},
		{"plan: {not: gold, present: true}", with("plan", "lead"), true},
		{"route: {not: /v1/**}", admission.Request{Route: "/v2"}, true},
		{"ip: {not: {cidr: 10.0.0.0/8}}", from("10.1.2.3"), false},
		{"ip: {not: {cidr: 10.0.0.0/8}}", nobody, true},

		// Ranges, whose ends belong to them.
		{"size: {range: [1, 10]}", with("size", "1"), true},
		{"size: {range: [1, 10]}", with("size", "10"), true},
		{"size: {range: [1, 10]}", with("size", "10.5"), false},
		{"size: {range: [1, 10]}", with("size", "0.9"), false},
		{"size: {range: [-2.5, 1000.5]}", with("size", "-2.5"), true},
		{"size: {range: [1, 10]}", with("size", "many"), false},
		{"size: {range: [1, 10]}", with("size", "NaN"), false},
		{"size: {range: [1, 10]}", with("size", "Inf"), false},
		{"size: {range: [1, 10]}", nobody, false},
		{"size: {range: [1, 10]}", with("size", "1e0"), false},
		{"size: {range: [1, 10]}", with("size", "-"), false},
		{"uid: {range: [100000000000000001, 100000000000000003]}", with("uid", "100000000000000003"), true},
		{"uid: {range: [100000000000000001, 100000000000000003]}", with("uid", "100000000000000004"), false}, // to a unit
		{"uid: {range: [100000000000000001, 100000000000000003]}", with("uid", "100000000000000000"), false},
		{"user: {range: [1, 2147483647]}", admission.Request{User: "42"}, true},
		{"user: {range: [1, 2147483647]}", admission.Request{User: "ann"}, false},
		{"size: {not: {range: [1, 10]}}", with("size", "many"), true},
		{"size: {range: [1, 10], not: 5}", with("size", "5"), false},
		{"size: {range: [1, 10], not: 5}", with("size", "6"), true},
		{"ip: {range: [10.0.0.9, 10.0.1.1]}", from("10.0.0.255"), true},
		{"ip: {range: [10.0.0.9, 10.0.1.1]}", from("10.0.1.1"), true},
		{"ip: {range: [10.0.0.9, 10.0.1.1]}", from("::ffff:10.0.0.9"), true},
		{"ip: {range: [10.0.0.9, 10.0.1.1]}", from("10.0.0.8"), false},
		{"ip: {range: [10.0.0.9, 10.0.1.1]}", from("::10.0.0.10"), false},
		{"ip: {range: [10.0.0.9, 10.0.1.1]}", nobody, false},
		{"ip: {range: ['fd00::', 'fd00::ff']}", from("fd00::1%eth0"), true},
		{"ip: {range: ['fd00::', 'fd00::ff']}", from("10.0.0.1"), false},

		// Networks.
		{"ip: {cidr: 10.0.0.0/8}", from("10.255.0.1"), true},
		{"ip: {cidr: 10.9.9.9/8}", from("10.255.0.1"), true},
		{"ip: {cidr: 10.0.0.0/8}", from("::ffff:10.0.0.1"), true},
		{"ip: {cidr: '::ffff:10.0.0.0/104'}", from("10.0.0.1"), true},
		{"ip: {cidr: 10.0.0.0/8}", from("11.0.0.1"), false},
		{"ip: {cidr: 0.0.0.0/0}", from("2001:db8::1"), false},
		{"ip: {cidr: ['10.0.0.0/8', 'fd00::/8']}", from("fd12::1%lo"), true},
		{"ip: {cidr: 10.0.0.0/8}", nobody, false},
		{"ip: {cidr: 10.0.0.0/8, not: 10.0.0.1}", from("10.0.0.1"), false},
		{"ip: {cidr: 10.0.0.0/8, not: 10.0.0.1}", from("10.0.0.2"), true},

		// Lists by name.
		{"user: {list: office}", admission.Request{User: "ann"}, true},
		{"user: {list: office}", admission.Request{User: "bob"}, false},
		{"user: {list: office}", admission.Request{User: "192.0.2.1"}, true},  // a user may be called like an address
		{"user: {list: office}", admission.Request{User: "10.1.2.3"}, false},  // and is in no network
		{"user: {list: office}", admission.Request{User: "10.0.0.0/8"}, true}, // whatever it is called
		{"plan: {list: office}", nobody, false},
		{"ip: {list: office}", from("192.0.2.1"), true},
		{"ip: {list: office}", from("::ffff:192.0.2.1"), true},
		{"ip: {list: office}", from("10.1.2.3"), true},
		{"ip: {list: office}", from("2001:db8:1::2%eth0"), true},
		{"ip: {list: office}", from("2001:db9::1"), false},
		{"ip: {list: office}", nobody, false},
		{"ip: {not: {list: office}}", from("10.1.2.3"), false},

		// Numbers above and below, without the end.
		{"size: {whole: true}", with("size", "-10"), true},
		{"size: {whole: true}", with("size", "007"), true},
		{"size: {whole: true}", with("size", "12345678901234567890"), true},
		{"size: {whole: true}", with("size", "10.0"), false},
		{"size: {whole: true}", with("size", "many"), false},
		{"size: {whole: true}", nobody, false},
		{"size: {whole: false}", with("size", "10.0"), true},
		{"size: {whole: false}", with("size", "10"), false},
		{"size: {range: [1, 9], whole: true}", with("size", "5"), true},
		{"size: {range: [1, 9], whole: true}", with("size", "5.5"), false},
		{"size: {above: 10}", with("size", "10"), false},
		{"size: {above: 10}", with("size", "10.01"), true},
		{"size: {above: 10}", with("size", "11"), true},
		{"size: {above: 10}", with("size", "many"), false},
		{"size: {above: 10}", nobody, false},
		{"size: {above: -1.5}", with("size", "-1"), true},
		{"size: {below: 10}", with("size", "10"), false},
		{"size: {below: 10}", with("size", "-3"), true},
		{"size: {below: 10}", with("size", ""), false},
		{"size: {below: 10}", nobody, false},
		{"size: {above: 10, below: 20}", with("size", "15"), true},
		{"size: {above: 10, below: 20}", with("size", "20"), false},
		{"size: {not: {above: 10}}", with("size", "many"), true},
		{"user: {above: 1000}", admission.Request{User: "1001"}, true},
		{"uid: {above: 100000000000000001}", with("uid", "100000000000000002"), true},
		{"uid: {above: 100000000000000001}", with("uid", "100000000000000001"), false}, // to a unit
		{"uid: {below: 100000000000000002}", with("uid", "100000000000000001"), true},

		// Any of several conditions, and all of them.
		{"size: {any: [5, {above: 10}]}", with("size", "5"), true},
		{"size: {any: [5, {above: 10}]}", with("size", "11"), true},
		{"size: {any: [5, {above: 10}]}", with("size", "6"), false},
		{"size: {any: [5, {above: 10}]}", nobody, false},
		{"size: {any: [{present: false}, {range: [1, 2]}, {range: [8, 9]}]}", nobody, true},
		{"size: {any: [{present: false}, {range: [1, 2]}, {range: [8, 9]}]}", with("size", "8"), true},
		{"size: {any: [{present: false}, {range: [1, 2]}, {range: [8, 9]}]}", with("size", "3"), false},
		{"size: {any: [[4, 5], 6], not: 5}", with("size", "4"), true},
		{"size: {any: [[4, 5], 6], not: 5}", with("size", "5"), false},
		{"size: {all: [{not: 5}, {range: [1, 9]}, {not: 6}]}", with("size", "7"), true},
		{"size: {all: [{not: 5}, {range: [1, 9]}, {not: 6}]}", with("size", "6"), false},
		{"size: {all: [{any: [1, 2]}, {any: [2, 3]}]}", with("size", "2"), true},
		{"size: {all: [{any: [1, 2]}, {any: [2, 3]}]}", with("size", "1"), false},
		{"size: {not: {any: [1, 2]}}", with("size", "2"), false},
		{"size: {not: {all: [1, 2]}}", with("size", "2"), true},
		{"route: {any: [/a, /b/**], not: /b/c}", admission.Request{Route: "/b/d"}, true},
		{"route: {any: [/a, /b/**], not: /b/c}", admission.Request{Route: "/b/c"}, false},
		{"method: {any: [PUT, POST]}", admission.Request{Method: "PUT"}, true},
		{"ip: {any: [192.0.2.1, {cidr: 10.0.0.0/8}, {list: office}]}", from("10.1.1.1"), true},
		{"ip: {any: [192.0.2.9, {cidr: 11.0.0.0/8}, {list: office}]}", from("2001:db8::1"), true},
		{"ip: {any: [192.0.2.9, {cidr: 11.0.0.0/8}]}", from("2001:db8::1"), false},

		// Addresses in attributes.
		{"from: {cidr: 10.0.0.0/8}", with("from", "10.1.2.3"), true},
		{"from: {cidr: 10.0.0.0/8}", with("from", "::ffff:10.1.2.3"), true},
		{"from: {cidr: 10.0.0.0/8}", with("from", "11.1.2.3"), false},
		{"from: {cidr: 10.0.0.0/8}", with("from", "10.1.2"), false},
		{"from: {cidr: 10.0.0.0/8}", with("from", " 10.1.2.3"), false},
		{"from: {cidr: 10.0.0.0/8}", with("from", "10.1.2.3:80"), false},
		{"from: {cidr: 10.0.0.0/8}", with("from", strings.Repeat("1", 50)+"."), false},
		{"from: {cidr: 0.0.0.0/0}", nobody, false},
		{"from: {cidr: ['::/0']}", with("from", "fd00::1%eth0"), true},
		{"from: {cidr: ['::/0']}", with("from", "10.0.0.1"), false},
		{"from: {not: {cidr: 10.0.0.0/8}}", with("from", "nowhere"), true},
		{"from: {range: [10.0.0.9, 10.0.1.1]}", with("from", "10.0.0.255"), true},
		{"from: {range: [10.0.0.9, 10.0.1.1]}", with("from", "10.0.1.2"), false},
		{"from: {range: [10.0.0.9, 10.0.1.1]}", with("from", "::ffff:10.0.0.9"), true},
		{"from: {range: [10.0.0.9, 10.0.1.1]}", with("from", "10"), false},
		{"from: {range: ['fd00::', 'fd00::ff']}", with("from", "fd00:0::1"), true},
		{"from: {range: ['fd00::', 'fd00::ff']}", with("from", "10.0.0.1"), false},
		{"from: {list: office}", with("from", "10.1.2.3"), true},
		{"from: {list: office}", with("from", "2001:db8:9::1"), true},
		{"from: {list: office}", with("from", "::ffff:192.0.2.1"), true},
		{"from: {list: office}", with("from", "ann"), true},
		{"from: {list: office}", with("from", "11.1.2.3"), false},
		{"from: 10.0.0.1", with("from", "::ffff:10.0.0.1"), false}, // a value is a text

		// Names of attributes.
		{"User-Agent: curl", with("User-Agent", "curl"), true},
		{"User-Agent: curl", with("user-agent", "curl"), false},
		{"x.y_Z-1: {above: 1}", with("x.y_Z-1", "2"), true},
		{"_: a", with("_", "a"), true},

		// Presence.
		{"user: {present: true}", admission.Request{User: "ann"}, true},
		{"user: {present: true}", nobody, false},
		{"user: {present: false}", nobody, true},
		{"ip: {present: true}", from("::"), true},
		{"ip: {present: false}", nobody, true},
		{"route: {present: false}", nobody, true},
		{"route: /**", nobody, false},                      // what is missing has no value
		{"plan: {present: true}", with("plan", ""), false}, // an empty value is none

		// All of a match have to hold.
		{"plan: gold, method: POST", with("plan", "gold"), false},
		{"plan: gold, method: POST", admission.Request{Method: "POST", Attributes: map[string]string{"plan": "gold"}}, true},
	} {
		rules := "- {name: r, match: {" + c.match + "}, algorithm: direct, action: deny}\n" +
			`lists: {office: {values: [ann, 192.0.2.1, 10.0.0.0/8, "2001:db8::/32"]}}`
		if got := quickGate(t, memory(), rules).Holds(c.req); got != c.want {
			t.Errorf("{%s} holds for %+v: %v, want %v", c.match, c.req, got, c.want)
		}
	}
}

// A long condition uses a lookup instead of comparisons, with the same result.
func TestLongConditions(t *testing.T) {
	var words, addresses, networks []string
	for i := range 20 {
		n := strconv.Itoa(i)
		words, addresses, networks = append(words, "w"+n), append(addresses, "192.0.2."+n), append(networks, "10."+n+".0.0/16")
	}
	rules := "- {name: words, match: {plan: [" + strings.Join(words, ", ") + "]}, algorithm: direct, action: deny}\n" +
		"- {name: addresses, match: {ip: [" + strings.Join(addresses, ", ") + "]}, algorithm: direct, action: deny}\n" +
		"- {name: networks, match: {ip: {cidr: ['fd00::/8', " + strings.Join(networks, ", ") + "]}}, algorithm: direct, action: deny}\n" +
		"- {name: places, match: {place: {cidr: ['fd00::/8', " + strings.Join(networks, ", ") + "]}}, algorithm: direct, action: deny}\n" +
		"- {name: others, match: {user: {not: [" + strings.Join(addresses, ", ") + "]}}, algorithm: direct, action: deny}\n"
	g := quickGate(t, memory(), rules)
	ann := func(req admission.Request) admission.Request {
		req.User = "192.0.2.1"
		return req
	}
	for _, c := range []struct {
		req  admission.Request
		want string
	}{
		{ann(with("plan", "w19")), "words"},
		{ann(with("plan", "w20")), ""},
		{ann(with("plan", "")), ""},
		{ann(from("::ffff:192.0.2.19")), "addresses"},
		{ann(from("192.0.2.20")), ""},
		{ann(from("10.19.255.1")), "networks"},
		{ann(from("fd01::1")), "networks"},
		{ann(from("10.20.0.1")), ""},
		{ann(with("place", "10.19.255.1")), "places"},
		{ann(with("place", "fd01::1")), "places"},
		{ann(with("place", "10.20.0.1")), ""},
		{ann(with("place", "")), ""},
		{admission.Request{User: "192.0.2.20"}, "others"},
	} {
		if d := charge(t, g, c.req); d.Rule != c.want {
			t.Errorf("%+v: refused by %q, want %q", c.req, d.Rule, c.want)
		}
	}
}

func memory() store.Store { return memorystore.New(memorystore.Options{}) }
