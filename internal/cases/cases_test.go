package cases

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
)

const rulesFile = `version: 1
lists: {keys: {values: [k1]}}
rules:
  - {name: free, match: {user: boss}, algorithm: direct, action: allow}
  - {name: keyed, match: {route: "/api/**", api-key: {not: {list: keys}}}, algorithm: direct, action: deny}
  - {name: search, match: {route: /search}, subject: caller, limit: {anonymous: 2, registered: 3, default: 3}, window: 1m}
  - {name: asks, match: {route: /ask}, subject: device, limit: 1, window: 1m, on_exceed: challenge}
  - {name: export, match: {route: /export}, subject: [user, session], limit: 10, window: day, zone: Europe/Berlin, cost: rows}
  - {name: orders, match: {route: /orders, method: POST}, subject: user, limit: 1, window: 1s, on_exceed: {action: ban, after: 3, within: 1m, for: 10m, growing: true}}
`

func ruleSet(t testing.TB) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(rulesFile))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// try parses one case and returns what failed, or "".
func try(t *testing.T, set *rules.Set, text string) string {
	t.Helper()
	all, err := Parse("cases.yaml", []byte("cases:\n- "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")+"\n"))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	failure, err := all[0].Try(t.Context(), set)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if failure == nil {
		return ""
	}
	return failure.Text
}

func TestCases(t *testing.T) {
	set := ruleSet(t)
	for text, want := range map[string]string{
		// Windows move with the clock of the case, and counters are its own.
		`request: {ip: 192.0.2.1, route: /search}
times: 2
expect: allow
then:
- expect: {action: deny, rule: search, reason: rate_limited, remaining: 0, retry_after: 1m}
- {wait: 59s, expect: {action: deny, retry_after: 1s}}
- {wait: 1s, expect: {action: allow, remaining: 1}}`: "",
		`request: {ip: 192.0.2.1, route: /search}
times: 3
expect: allow`: "request 3 of 3: got deny, rule search, reason rate_limited, remaining 0, retry after 1m0s, expected allow",
		`{request: {user: ann, route: /search}, times: 3, expect: allow}`:                 "",
		`{request: {user: ann, tier: anonymous, route: /search}, times: 2, expect: deny}`: "request 1 of 2: got allow, rule search, remaining 1, expected deny",
		// Every part of a request.
		`{request: {user: boss, route: /search}, times: 9, expect: allow}`:                   "",
		`{request: {user: boss, route: /search}, expect: {action: allow, rule: free}}`:       "got allow, expected allow, rule free",
		`{request: {route: /api/x}, expect: {action: deny, rule: keyed, reason: forbidden}}`: "",
		`{request: {route: /api/x, attributes: {api-key: k1}}, expect: allow}`:               "",
		`request: {device: d1, route: /ask}
expect: allow
then:
- expect: {action: challenge, reason: captcha_required}
- {request: {device: d1, route: /ask, solved: true}, expect: allow}
- {request: {device: d2, route: /ask}, expect: allow}`: "",
		`{request: {user: ann, session: s, route: /export, attributes: {rows: 11}}, expect: {reason: cost_above_limit}}`: "",
		`{request: {user: ann, session: s, route: /export, cost: 2, attributes: {rows: 5}}, expect: {remaining: 0}}`:     "",
		`{request: {user: ann, session: s, route: /export}, expect: invalid}`:                                            "",
		`{request: {user: ann, session: s, route: /export, attributes: {rows: 1.5}}, expect: allow}`: "got invalid (admission: invalid request: " +
			"attribute rows is \"1.5\", should be a whole number from 1 to 1000000: it is the cost of rule export), expected allow",
		`{request: {user: ann, route: /search}, expect: invalid}`: "got allow, rule search, remaining 2, expected invalid",
		// A day ends when it does in the zone of the rule.
		`at: 2026-03-01T23:59:59+01:00
request: {user: ann, session: s, route: /export, attributes: {rows: 10}}
expect: allow
then:
- expect: {action: deny, retry_after: 1s}
- {wait: 1s, expect: allow}`: "",
		// A ban comes with the refusal that it follows, holds everywhere, ends, and grows.
		`request: {user: bea, route: /orders, method: POST}
expect: allow
then:
- {times: 2, expect: deny}
- expect: {action: ban, reason: banned, retry_after: 10m}
- {request: {user: bea, route: /elsewhere}, expect: {action: ban, rule: orders}}
- {wait: 599s, expect: ban}
- {wait: 1s, expect: allow}
- {request: {user: bea, route: /orders, method: POST}, expect: allow}
- {times: 2, expect: deny}
- expect: {action: ban, retry_after: 20m}`: "",
	} {
		if got := try(t, set, text); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// Lines are those of the step that failed.
func TestLines(t *testing.T) {
	all, err := Parse("cases.yaml", []byte(`# comment
cases:
  - name: first
    request: {user: ann, route: /search}
    expect: allow
  - request: {user: ann, route: /search}
    expect: allow
    then:
      - expect: allow
      -
        expect: deny
`))
	if err != nil || len(all) != 2 || all[0].Name != "first" || all[0].Line != 3 || all[1].Name != "of line 6" {
		t.Fatalf("%+v, %v", all, err)
	}
	failure, err := all[1].Try(t.Context(), ruleSet(t))
	if err != nil || failure == nil || failure.Line != 11 {
		t.Errorf("%+v, %v", failure, err)
	}
}

func TestWrongCases(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      `should be one document, with "cases:" and a list of them`,
		"a: 1":                                  `f:1:1: the file has no "a", it may have cases`,
		"x":                                     "f:1:1: the file should be a map",
		"cases: []":                             `should have "cases:" with a list of them`,
		"cases: {}":                             `should have "cases:" with a list of them`,
		"cases: [{":                             "f:1:9: not YAML: ",
		"cases: [1]":                            "f:1:9: a case should be a map",
		"cases: [{nam: x}]":                     `f:1:10: a case has no "nam", it may have name, at, request, times, expect, then`,
		"cases: [{expect: allow}]":              "f:1:9: the case has no request",
		"cases: [{request: {}}]":                "expect is missing, should be allow, deny, challenge, ban or invalid",
		"cases: [{request: {}, expect: maybe}]": `f:1:31: the action is "maybe", should be allow, deny, challenge, ban or invalid`,
		"cases: [{request: {}, expect: {}}]":    "expect is empty",
		"cases: [{request: {}, expect: {acton: deny}}]":                 `expect has no "acton"`,
		"cases: [{request: {}, expect: {remaining: -1}}]":               "should be a whole number from 0 to 1000000000",
		"cases: [{request: {}, expect: {retry_after: 1}}]":              `retry_after is "1", should be a duration such as 10s, 1m or 24h`,
		"cases: [{request: {ip: x}, expect: allow}]":                    `f:1:24: ip is "x", should be an address such as 192.0.2.1`,
		"cases: [{request: {cost: 0}, expect: allow}]":                  "should be a whole number from 1 to 1000000",
		"cases: [{request: {solved: ja}, expect: allow}]":               "solved should be true or false",
		"cases: [{request: {user: [a]}, expect: allow}]":                "should be a text or a number, on one line",
		"cases: [{request: {attributes: {user: x}}, expect: allow}]":    "user is no attribute, it stands beside attributes",
		"cases: [{request: {attributes: {network: x}}, expect: allow}]": "network is no attribute",
		"cases: [{request: {attributes: {n: {a: b}}}, expect: allow}]":  "should be a text or a number",
		"cases: [{request: {}, times: 0, expect: allow}]":               `times is "0", should be a whole number from 1 to 100000`,
		"cases: [{request: {}, at: noon, expect: allow}]":               `at is "noon", should be a time such as 2026-03-01T23:59:00+01:00`,
		"cases: [{request: {}, expect: allow, then: x}]":                "then should be a list of steps",
		"cases: [{request: {}, expect: allow, then: [{wait: 1}]}]":      `wait is "1", should be a duration`,
		"cases: [{request: {}, expect: allow, then: [{name: x}]}]":      `a step has no "name", it may have wait, request, times, expect`,
		"cases: [{request: {}, request: {}, expect: allow}]":            "already defined",
	} {
		if all, err := Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %v, want %s", text, all, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there")
	}
}

func FuzzCases(f *testing.F) {
	f.Add("cases:\n  - {name: a, request: {ip: ::1, attributes: {n: 1}}, expect: {action: deny, retry_after: 1m}, then: [{wait: 1s, times: 2, expect: allow}]}\n")
	f.Add("cases: [&a {request: *a}]")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse("cases.yaml", []byte(text))
		if err == nil && len(all) == 0 {
			t.Errorf("%q has no cases", text)
		}
	})
}
