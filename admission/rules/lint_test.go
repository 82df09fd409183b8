package rules_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
)

var server, untrusting = serverWith(true), serverWith(false)

func serverWith(trustedProxies bool) rules.Server {
	return rules.Server{
		TrustedProxies: trustedProxies, Public: []string{"/v1/sales/*", "/v1/sales/*/orders", "/v1/orders/*/cancel", "/v1/captcha/challenge"},
		Admit: "/v1/admit", Gateways: "/v1/authz",
	}
}

// Each warning names its rule and says what to do; what is meant gets none. What becomes of requests without a user, of which hardly any of these
// rules says something, has a test of its own.
func TestLint(t *testing.T) {
	const window = ", window: 1m"
	for _, c := range []struct {
		set  string
		want []string
	}{
		// Rules that are never reached.
		{"- {name: all, algorithm: direct, action: allow}\n- {name: r, subject: user, limit: 1, window: 1s}", []string{
			"4 r: it never decides: rule all before it decides every request (allow). Move it up, or give all a match",
		}},
		{"- {name: all, match: {route: [/a, /**]}, algorithm: direct, action: deny}\n- {name: r, algorithm: direct, action: allow}", []string{
			"4 r: it never decides: rule all before it decides every request (deny). Move it up, or give all a match",
		}},
		{"- {name: some, match: {method: PUT, ip: {cidr: [10.0.0.0/8]}}, algorithm: direct, action: allow}\n" +
			"- {name: r, match: {method: PUT, ip: {cidr: [10.0.0.0/8]}}, subject: user, limit: 1, window: 1s}\n" +
			"- {name: s, match: {method: PUT, ip: {cidr: [10.0.0.0/9]}}, subject: user, limit: 1, window: 1s}", []string{
			"4 r: it never decides: rule some before it has the same match and decides (allow). Move it up, or leave it out",
		}},
		{"- {name: some, match: {user: ann}, algorithm: direct, action: allow}\n- {name: r, match: {device: ann}, subject: ip, limit: 1, window: 1s}", nil},
		{"- {name: most, match: {route: /a/**}, algorithm: direct, action: allow}\n- {name: r, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, subject: user, limit: 1, window: 1s}\n- {name: all, algorithm: direct, action: allow}", nil},

		// Conditions that never hold.
		{"- {name: r, match: {ip: {cidr: [10.0.0.0/8, 11.1.0.0/16], not: {cidr: [10.0.0.0/7]}}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `ip: {cidr: [10.0.0.0/8, 11.1.0.0/16], not: {cidr: [10.0.0.0/7]}}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {ip: {cidr: 10.0.0.0/8, not: {cidr: 10.1.0.0/16}}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {ip: {range: [10.0.0.1, 10.0.0.2], not: {range: [10.0.0.1, 10.0.0.3]}}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `ip: {range: [10.0.0.1, 10.0.0.2], not: {range: [10.0.0.1, 10.0.0.3]}}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {size: {range: [2, 3], not: {range: [1, 3]}}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `size: {range: [2, 3], not: {range: [1, 3]}}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {size: {range: [1, 3], not: {range: [2, 3]}}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {size: {range: [1, 3], present: false}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `size: {range: [1, 3], present: false}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {size: {range: [1, 3], present: true}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {user: {list: l, not: {list: l}}}, algorithm: direct, action: deny}\nlists: {l: {values: [a]}}", []string{
			"3 r: the condition `user: {list: l, not: {list: l}}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {user: {list: l, not: {list: m}}}, algorithm: direct, action: deny}\nlists: {l: {values: [a]}, m: {values: [a]}}", nil},
		{"- {name: r, match: {user: {list: none}}, algorithm: direct, action: deny}\nlists: {none: {file: testdata/empty.txt}}", []string{
			"3 r: list none is empty. Fill it, or leave out the condition `user: {list: none}`",
		}},
		{"- {name: r, subject: user, limit: 1, window: 1s, overrides: [{match: {user: {not: {list: none}}}, limit: 2}]}\nlists: {none: {file: testdata/empty.txt}}", []string{
			"3 r: list none is empty. Fill it, or leave out the condition `user: {not: {list: none}}`",
		}},
		{"- {name: r, match: {user: {present: false}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: it never counts a request: its subject needs user, and its match selects only requests without it. Change one of them",
		}},
		{"- {name: r, match: {user: {not: {present: true}}}, subject: [user, device], limit: 1, window: 1s}", []string{
			"3 r: it never counts a request: its subject needs user, and its match selects only requests without it. Change one of them",
		}},
		{"- {name: r, match: {user: {present: true}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {size: {above: 5, below: 5}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `size: {above: 5, below: 5}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {size: {above: 5, below: 3}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `size: {above: 5, below: 3}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {size: {range: [1, 5], above: 5}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `size: {range: [1, 5], above: 5}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {size: {range: [6, 7], below: 6}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `size: {range: [6, 7], below: 6}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {size: {above: 5, not: {above: 3}}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `size: {above: 5, not: {above: 3}}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {size: {below: 5, not: {range: [-9, 9], below: 7}}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {plan: {all: [gold, silver]}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `plan: {all: [gold, silver]}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {plan: {all: [[gold, lead], {not: [gold, lead, tin]}]}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `plan: {all: [[gold, lead], {not: [gold, lead, tin]}]}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {plan: {any: [gold, silver], not: [gold, silver]}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `plan: {any: [gold, silver], not: [gold, silver]}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {plan: {any: [{above: 9}, gold], present: false}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `plan: {any: [{above: 9}, gold], present: false}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {plan: {all: [{all: [5, {present: true}]}, {above: 5}]}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `plan: {all: [{all: [5, {present: true}]}, {above: 5}]}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {addr_of: {all: [{cidr: 10.0.0.0/8}, {cidr: 11.0.0.0/8}]}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: the condition `addr_of: {all: [{cidr: 10.0.0.0/8}, {cidr: 11.0.0.0/8}]}` never holds, its parts exclude each other. Leave one out",
		}},
		{"- {name: r, match: {plan: {any: [{above: 9}, lead], below: 30, not: lead}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {size: {above: 3, below: 5}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {size: {above: 3, not: {above: 5}}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {size: {range: [1, 5], below: 2}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {plan: {any: [gold, silver], not: gold}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {plan: {all: [[gold, lead], {not: gold}]}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {plan: {all: [[gold, lead], [lead, tin]]}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {addr_of: {all: [{cidr: 10.0.0.0/8}, {cidr: 10.1.0.0/16}]}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {size: {all: [5, {above: 4}]}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {user: {any: [ann, {list: none}]}}, algorithm: direct, action: deny}\nlists: {none: {file: testdata/empty.txt}}", []string{
			"3 r: list none is empty. Fill it, or leave out the condition `user: {any: [ann, {list: none}]}`",
		}},
		{"- {name: r, match: {user: {any: [{present: false}, {not: {present: true}}]}}, subject: user, limit: 1, window: 1s}", []string{
			"3 r: it never counts a request: its subject needs user, and its match selects only requests without it. Change one of them",
		}},
		{"- {name: r, match: {user: {any: [{present: false}, ann]}}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: some, match: {size: {any: [1, {above: 3}]}}, algorithm: direct, action: allow}\n" +
			"- {name: r, match: {size: {any: [1, {above: 3}]}}, subject: user, limit: 1, window: 1s}\n" +
			"- {name: s, match: {size: {any: [1, {above: 4}]}}, subject: user, limit: 1, window: 1s}", []string{
			"4 r: it never decides: rule some before it has the same match and decides (allow). Move it up, or leave it out",
		}},
		{"- {name: r, match: {size: {range: [1, 5], all: [{range: [5, 9]}]}}, subject: user, limit: 1, window: 1s}", nil},

		// Limits behind lower ones.
		{"- {name: a, subject: user, limit: 5" + window + "}\n- {name: b, match: {method: POST}, subject: user, limit: 6, window: 30s}", []string{
			"4 b: its limit in 30s is never reached, a in 1m0s comes first. Leave it out, or make it lower",
		}},
		{"- {name: a, subject: user, limit: 5" + window + "}\n- {name: b, subject: user, limit: 5" + window + "}", []string{
			"4 b: its limit in 1m0s is never reached, a in 1m0s comes first. Leave it out, or make it lower",
		}},
		{"- {name: a, subject: user, windows: [{limit: 20, window: 10s}, {limit: 5, window: 10m}]}", []string{
			"3 a: its limit in 10s is never reached, a in 10m0s comes first. Leave it out, or make it lower",
		}},
		{"- {name: a, subject: user, limit: 5, window: 720h}\n- {name: b, subject: user, limit: 6, window: day}", []string{
			"4 b: its limit in day UTC is never reached, a in 720h0m0s comes first. Leave it out, or make it lower",
		}},
		{"- {name: a, subject: user, limit: 5, window: 24h}\n- {name: b, subject: user, limit: 6, window: day}", nil}, // of 25 hours
		{"- {name: a, subject: user, windows: [{limit: 5, window: 10s}, {limit: 20, window: 10m}]}", nil},
		{"- {name: a, match: {method: PUT}, subject: user, limit: 5" + window + "}\n- {name: b, subject: user, limit: 6" + window + "}", nil},
		{"- {name: a, subject: user, limit: 5, cost: 2" + window + "}\n- {name: b, subject: user, limit: 6" + window + "}", nil},
		{"- {name: a, subject: user, limit: 5" + window + ", overrides: [{match: {user: x}, limit: 9}]}\n- {name: b, subject: user, limit: 6" + window + "}", nil},
		{"- {name: a, subject: user, limit: 5" + window + "}\n- {name: b, subject: device, limit: 6" + window + "}", nil},
		{"- {name: a, subject: user, limit: {x: 7, default: 5}" + window + "}\n- {name: b, subject: user, limit: 6" + window + "}", nil},
		{"- {name: a, subject: user, limit: {x: unlimited, default: 5}" + window + "}\n- {name: b, subject: user, limit: 6" + window + "}", nil},
		{"- {name: a, subject: user, limit: 5" + window + "}\n- {name: b, subject: user, limit: unlimited" + window + "}", nil},
		{"- {name: a, subject: user, limit: 5, algorithm: fixed_window" + window + "}\n- {name: b, subject: user, limit: 6" + window + "}", nil},
		{"- {name: a, subject: user, limit: 5" + window + "}\n- {name: b, subject: user, limit: 6" + window + ", count_rejected: true}", nil},
		{"- {name: b, subject: user, limit: 6" + window + "}\n- {name: free, match: {user: x}, algorithm: direct, action: allow}\n- {name: a, subject: user, limit: 5" + window + "}", nil},

		// Names that are nearly others.
		{"- {name: r, subject: usr, limit: 1, window: 1s}", []string{"3 r: usr is an attribute of the request's own. If user is meant, write that"}},
		{"- {name: r, match: {mehtod: POST, users: ann}, subject: user_id, limit: 1, window: 1s}", []string{
			"3 r: mehtod is an attribute of the request's own. If method is meant, write that",
			"3 r: user_id is an attribute of the request's own. If user is meant, write that",
			"3 r: users is an attribute of the request's own. If user is meant, write that",
		}},
		{"- {name: r, match: {User-Id: ann, clientIP: '::1', Devise: d}, subject: [Uid, session.id], limit: 1, window: 1s}", []string{
			"3 r: Devise is an attribute of the request's own. If device is meant, write that",
			"3 r: Uid is an attribute of the request's own. If user is meant, write that",
			"3 r: User-Id is an attribute of the request's own. If user is meant, write that",
			"3 r: clientIP is an attribute of the request's own. If ip is meant, write that",
			"3 r: session.id is an attribute of the request's own. If session is meant, write that",
		}},
		{"- {name: r, match: {plan: gold, version: '2', zip: '1'}, subject: [tenant, shop], limit: 1, window: 1s}", nil},

		// What goes too far.
		{"- {name: r, subject: caller, limit: 1, window: 1s, on_exceed: ban}", []string{
			"3 r: it bans addresses, and behind one there may be many people. Name those that must never be shut out in bans.allow",
		}},
		{"- {name: r, subject: user, limit: 1, window: 1s, on_exceed: ban}", nil},
		{"- {name: r, subject: ip, limit: 1, window: 1s, on_exceed: ban}\nlists: {us: {values: [10.0.0.1]}}\nbans: {allow: us}", nil},
		{"- {name: r, match: {route: /**}, subject: user, limit: 1, window: 1s, on_store_error: closed}", []string{
			"3 r: it is closed and matches everything: while the store is down it denies every request. Give it a match, or make it local",
		}},
		{"- {name: r, match: {method: POST}, subject: user, limit: 1, window: 1s, on_store_error: closed}", nil},

		// Values that never match, or that other readers of YAML read in another way.
		{"- {name: r, match: {ip: {list: l}}, subject: user, limit: 1, window: 1s}\nlists:\n  l:\n    values:\n    - 10.0.0.0/8\n    - 10.0.0.256\n    - host", []string{
			"5 : list l is used for ip only, and 2 of its values never match, because they are no addresses, first \"10.0.0.256\" (test.yaml:8). " +
				"Write addresses such as 192.0.2.1, or networks such as 10.0.0.0/8",
		}},
		{"- {name: r, match: {ip: {list: l}, user: {not: {list: l}}}, subject: user, limit: 1, window: 1s}\nlists: {l: {values: [ann, 10.0.0.1]}}", nil},
		{"- {name: r, match: {ip: {list: l}}, subject: user, limit: 1, window: 1s}\nlists: {l: {values: [ann, 10.0.0.1]}}\nbans: {allow: l}", nil},
		{"- {name: r, match: {net: {not: [lan, 10.0.0.0/33]}}, subject: user, limit: 1, window: 1s}", []string{
			"3 : `net: 10.0.0.0/33` compares with this very text, not with the addresses of a network. For these write {cidr: 10.0.0.0/8}, which ip and attributes have",
		}},
		{"- {name: r, match: {net: [lan, 10.0.0.1, a/b]}, subject: user, limit: 1, window: 1s}", nil},
		{"- name: r\n  match: {country: [de, no], flag: ON, tier: {not: off}}\n  subject: user\n  limit: 1\n  window: 1s", []string{
			`4 : no is the text "no" here, and true or false for other readers of YAML. Put it in quotes: "no"`,
			`4 : ON is the text "ON" here, and true or false for other readers of YAML. Put it in quotes: "ON"`,
			`4 : off is the text "off" here, and true or false for other readers of YAML. Put it in quotes: "off"`,
		}},
		{"- {name: r, match: {country: {list: l}}, subject: user, limit: 1, window: 1s}\nlists: {l: {values: [se, no]}}", []string{
			`4 : no is the text "no" here, and true or false for other readers of YAML. Put it in quotes: "no"`,
		}},
		{"- {name: r, match: {country: [\"no\", 'on', true, nor]}, subject: user, limit: 1, window: 1s}", nil},
		{"- {name: r, match: {size: {above: 010, below: 99.5}}, subject: user, limit: 07, window: 1s}", []string{
			"3 : 010 is 10 here, and octal for other readers of YAML. Write 10",
		}},

		// What does nothing.
		{"- {name: r, subject: user, limit: 1, window: 1s}\nlists:\n  b: {values: [x]}\n  a: {values: [x]}", []string{
			"5 : list b is used by nothing. Leave it out",
			"6 : list a is used by nothing. Leave it out",
		}},
		{"- {name: r, subject: user, limit: 1, window: 1s, shadow: true}", []string{
			"3 r: it is in shadow and denies nothing. Once its numbers are right, leave out shadow",
		}},
		{"- {name: r, subject: user, limit: 1, window: 1s}\nlists: {none: {file: testdata/empty.txt}}\nbans: {allow: [none], run: [/bin/true]}", []string{
			"5 : list none is empty and protects no one from bans. Fill it, or leave out bans.allow",
		}},
		{"- {name: r, subject: user, limit: 1, window: 1s}\nlogin:\n- {count: name, limit: 3, window: 1m, then: challenge}\nsemaphores: {report: {limit: 2}}", nil},
	} {
		var got []string
		for _, w := range rules.Lint(parse(t, c.set), server) {
			if strings.HasPrefix(w.Text, "it lets requests without ") {
				continue
			}
			got = append(got, fmt.Sprintf("%d %s: %s", w.Line, w.Rule, w.Text))
		}
		same(t, c.set, got, c.want)
	}
}

// Requests that lack a part of the subject are not counted. This is a warning unless the file shows that it is intended.
func TestLintOfRequestsThatLackThePart(t *testing.T) {
	const count = ", limit: 1, window: 1s}"
	const (
		withoutUser = "it lets requests without user pass uncounted. Count caller, which is the address of whoever has no user, or match `user: {present: true}` if that is meant"
		withoutPlan = "it lets requests without plan pass uncounted. Decide about them in a direct rule before it, or match `plan: {present: true}` if that is meant"
	)
	for set, want := range map[string]string{
		"- {name: r, subject: user" + count:                                                                                                                  withoutUser,
		"- {name: r, match: {route: /a}, subject: [user, ip]" + count:                                                                                        withoutUser,
		"- {name: r, match: {user: {not: ann}}, subject: user" + count:                                                                                       withoutUser,
		"- {name: r, match: {tier: [gold, anonymous]}, subject: user" + count:                                                                                withoutUser,
		"- {name: r, subject: plan" + count:                                                                                                                  withoutPlan,
		"- {name: r, match: {plan: {not: gold}}, subject: plan" + count:                                                                                      withoutPlan,
		"- {name: r, subject: [caller, ip, network]" + count:                                                                                                 "",
		"- {name: r, match: {user: {present: true}}, subject: user" + count:                                                                                  "",
		"- {name: r, match: {user: [ann, bob]}, subject: user" + count:                                                                                       "",
		"- {name: r, match: {tier: registered}, subject: user" + count:                                                                                       "",
		"- {name: r, match: {tier: {not: anonymous}}, subject: user" + count:                                                                                 "",
		"- {name: r, match: {plan: {above: 1}}, subject: plan" + count:                                                                                       "",
		"- {name: n, match: {user: {present: false}}, algorithm: direct, action: deny}\n- {name: r, match: {route: /a}, subject: user" + count:               "",
		"- {name: n, match: {route: /a, user: {present: false}}, algorithm: direct, action: allow}\n- {name: r, match: {route: /a}, subject: user" + count:   "",
		"- {name: n, match: {route: /b, user: {present: false}}, algorithm: direct, action: deny}\n- {name: r, match: {route: /a}, subject: user" + count:    withoutUser,
		"- {name: n, match: {route: /a, plan: {not: gold}}, algorithm: direct, action: deny}\n- {name: r, match: {route: /a}, subject: plan" + count:         "",
		"- {name: r, match: {route: /a}, subject: user" + count + "\n- {name: n, match: {user: {present: false}}, algorithm: direct, action: deny}":          withoutUser,
		"- {name: n, match: {user: {present: false}}, algorithm: direct, action: deny, shadow: true}\n- {name: r, match: {route: /a}, subject: user" + count: withoutUser,
		"- {name: r, match: {route: /a}, subject: user" + count + "\n- {name: guests, match: {tier: anonymous, route: /a}, subject: ip" + count:              "",
		"- {name: r, match: {route: /a}, subject: user, limit: 1, window: 1s}\n- {name: all, match: {route: /a}, subject: ip, limit: 9, window: 1s}":         withoutUser,
		"- {name: r, match: {route: /a}, subject: user" + count + "\n- {name: guests, match: {tier: anonymous, method: GET, route: /a}, subject: ip" + count: withoutUser,
	} {
		got := ""
		for _, w := range rules.Lint(parse(t, set), server) {
			if strings.HasPrefix(w.Text, "it lets requests without ") {
				got += w.Text
			}
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant %q", set, got, want)
		}
	}
}

func TestLintOfCostsThatBuyersDoNotHave(t *testing.T) {
	for match, want := range map[string]bool{
		"":                                   true,
		"match: {method: POST}, ":            true,
		"match: {route: /v1/**}, ":           true,
		"match: {route: /v1/sales/spring}, ": true,
		"match: {route: /export}, ":          false,
		"match: {size: {present: true}}, ":   false,
		"match: {size: {range: [1, 9]}}, ":   false,
	} {
		got := false
		for _, w := range rules.Lint(parse(t, "- {name: r, "+match+"subject: ip, limit: 1, window: 1s, cost: size}"), server) {
			got = got || strings.HasPrefix(w.Text, "its cost is the attribute size, which requests on Tidegate's public routes do not have")
		}
		if got != want {
			t.Errorf("%s: warned %v, want %v", match, got, want)
		}
	}
}

func TestLintOfAttributesThatNobodySends(t *testing.T) {
	const count = ", limit: 1, window: 1s}"
	own := func(name string) string {
		return "requests on this route of Tidegate's never have " + name + ": only /v1/admit and gateways send it. Leave it out, or match a route of your own"
	}
	const capitals = "Plan never comes through /v1/authz, where names have small letters. Write plan, unless only /v1/admit sends it"
	for set, want := range map[string]string{
		"- {name: r, match: {route: /v1/sales/*/orders, plan: gold}, subject: caller" + count:                                      own("plan"),
		"- {name: r, match: {route: [/v1/sales/spring, /v1/orders/*/cancel], device: {present: true}}, subject: device" + count:    own("device"),
		"- {name: r, match: {route: /v1/captcha/challenge}, subject: caller, overrides: [{match: {plan: gold}, limit: 2}]" + count: own("plan"),
		"- {name: r, match: {route: /v1/**, plan: gold}, subject: caller" + count:                                                  "",
		"- {name: r, match: {route: [/v1/sales/*, /search], plan: gold}, subject: caller" + count:                                  "",
		"- {name: r, match: {route: /v1/sales/*/orders, tier: gold}, subject: caller" + count:                                      "",
		"- {name: r, match: {Plan: gold}, subject: caller" + count:                                                                 capitals,
		"- {name: r, match: {Plan: gold}, subject: Plan" + count + "\n- {name: s, match: {Plan: lead}, subject: caller" + count:    capitals,
		"- {name: r, match: {plan: gold, size.of_x-1: 3}, subject: caller" + count:                                                 "",
	} {
		var got []string
		for _, w := range rules.Lint(parse(t, set), server) {
			got = append(got, w.Text)
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%s:\n%s\nwant %q", set, strings.Join(got, "\n"), want)
		}
	}
}

// There is a warning if too many rules can match one request, whichever they are, and none if no request meets all of them.
func TestLintOfManyRulesForOneRequest(t *testing.T) {
	const count = "limit: 5, window: 1m"
	for _, c := range []struct {
		n     int
		rule  string // # is its number
		first string // rules before
		want  string
	}{
		{n: 50, rule: "subject: ip, " + count},
		{n: 51, rule: "subject: ip, " + count, want: "r0: 51 rules with 51 windows"},
		{n: 26, rule: "subject: ip, windows: [{limit: 5, window: 1m}, {limit: 9, window: 1h}]", want: "r0: 26 rules with 52 windows"},
		{n: 60, rule: "match: {route: /v1/**}, subject: ip, " + count, want: "r0: 60 rules with 60 windows"},
		{n: 60, rule: "match: {x#: {present: true}}, subject: ip, " + count, want: "r0: 60 rules with 60 windows"},
		{n: 60, rule: "match: {x: {not: y#}}, subject: ip, " + count, want: "r0: 60 rules with 60 windows"},
		{n: 50, rule: "match: {x: x#}, subject: ip, " + count, first: "- {name: a, subject: ip, " + count + "}\n"},
		{n: 50, rule: "match: {x: {not: x#}}, subject: ip, " + count, first: "- {name: a, subject: ip, " + count + "}\n", want: "a: 51 rules with 51 windows"},
		{n: 60, rule: "algorithm: direct, action: challenge"},
		{n: 60, rule: "subject: ip, " + count, first: "- {name: a, algorithm: direct, action: allow}\n"},
		{n: 50, rule: "subject: user, " + count, first: "- {name: a, match: {user: {present: false}}, subject: ip, " + count + "}\n"},
		{n: 500, rule: "match: {route: /v1/a#/**, method: GET}, subject: ip, " + count},
		{n: 200, rule: "match: {route: [/v1/a#, /v1/b#]}, subject: ip, " + count},
		{n: 200, rule: "match: {tenant: t#}, subject: ip, " + count},
		{n: 200, rule: "match: {ip: {cidr: 10.0.#.0/24}}, subject: ip, " + count},
		{n: 200, rule: "match: {size: {range: [#.1, #.9]}}, subject: ip, " + count},
	} {
		text := c.first
		for i := range c.n {
			text += strings.ReplaceAll("- {name: r#, "+c.rule+"}\n", "#", strconv.Itoa(i))
		}
		got := ""
		for _, w := range rules.Lint(parse(t, text), server) {
			if strings.Contains(w.Text, " can match one request") {
				got += w.Rule + ": " + w.Text
			}
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%d rules with %s after %q: %q, want %q", c.n, c.rule, c.first, got, c.want)
		}
	}
}

// What is true of several rules is said once.
func TestLintSaysItOnce(t *testing.T) {
	set := parse(t, "- {name: a, subject: ip, limit: 1, window: 1s}\n- {name: b, match: {route: /b}, subject: caller, limit: 1, window: 2s, shadow: true}\n"+
		"- {name: c, match: {route: /c}, subject: network, limit: 1, window: 1s, shadow: true}")
	const shadow = "it is in shadow and denies nothing. Once its numbers are right, leave out shadow (also: c)"
	same(t, "warnings", rules.Lint(set, untrusting), []rules.Warning{
		{Line: 3, Rule: "a", Text: "it looks at addresses: behind a proxy that TRUSTED_PROXIES does not name, everybody has the proxy's address (also: b, c)"},
		{Line: 4, Rule: "b", Text: shadow, Note: true},
	})
}

// Without a trusted proxy all clients of one have one address.
func TestLintWithoutTrustedProxies(t *testing.T) {
	for rule, want := range map[string]bool{
		"subject: ip":                       true,
		"subject: [user, network]":          true,
		"subject: caller":                   true,
		"subject: user, match: {ip: '::1'}": true,
		"subject: user, overrides: [{match: {ip: '::1'}, limit: 2}]": true,
		"subject: user": false,
		"subject: trip, match: {trip: {present: true}}": false, // an attribute
	} {
		set := parse(t, "- {name: none, match: {user: {present: false}}, algorithm: direct, action: deny}\n- {name: r, limit: 1, window: 1s, "+rule+"}")
		if got := len(rules.Lint(set, untrusting)) == 1; got != want {
			t.Errorf("%s: warned %v, want %v", rule, got, want)
		}
		if w := rules.Lint(set, server); len(w) > 0 {
			t.Errorf("%s behind a trusted proxy: %v", rule, w)
		}
	}
}

func TestNothingIsWrongWithTheDefaultRules(t *testing.T) {
	if w := rules.Lint(rules.Default(), server); len(w) > 0 {
		t.Errorf("%+v", w)
	}
}
