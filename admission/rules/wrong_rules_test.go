package rules_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
)

// Each error has its position and says what would be right.
func TestWrongRules(t *testing.T) {
	const rule = "version: 1\nrules:\n  - name: a\n    subject: user\n    limit: 1\n    window: 1s\n"
	for _, c := range []struct{ src, want string }{
		{"", `test.yaml: the file is empty, it should begin with "version: 1"`},
		{"# nothing\n", `test.yaml: the file is empty, it should begin with "version: 1"`},
		{"- a", `test.yaml:1:1: a rules file should be a mapping, such as {key: value}, here is a list`},
		{"version: 2", `test.yaml:1:10: version should be 1, here is "2"`},
		{"\ufeffversion: 2", `test.yaml:1:10: version should be 1, here is "2"`},
		{"version: 1", `test.yaml:1:1: the key "rules" is missing, it should be a list of rules`},
		{"rules: [{name: a, subject: user, limit: 1, window: 1s}]", `test.yaml:1:1: the key "version" is missing, it should be "version: 1"`},
		{"version: 1\nrules: []", `test.yaml:2:8: rules is empty`},
		{"version: 1\nrules: []\nsemaphores: {}", `test.yaml:2:8: rules is empty`},
		{"version: 1\nsemaphores: {}", `test.yaml:1:1: the key "rules" is missing, it should be a list of rules`},
		{"semaphores: {a: {limit: 1}}", `test.yaml:1:1: the key "version" is missing, it should be "version: 1"`},
		{"version: 1\nrules: {a: b}", `test.yaml:2:8: rules should be a list, here is a mapping`},
		{"version: 1\nrule: []", `test.yaml:2:1: unknown key "rule": a rules file has version, answer, lists, rules, bans, semaphores, login`},
		{"version: 1\nversion: 1", `test.yaml:2:1: a rules file has "version" twice`},
		{"version: 1\n\trules: []", "test.yaml:2:1: not YAML: found character '\t' that cannot start any token"},
		{"version: [1", `test.yaml:1:10: not YAML: sequence end token ']' not found`},
		{"version: 1\n1: 2", `test.yaml:2:1: a key of a rules file should be a plain word`},
		{strings.Repeat("#", 1<<20+1), `test.yaml: the file has 1048577 bytes, at most 1048576 are read`},
		{rule + "---\nversion: 1", `test.yaml:8:1: a second document begins here, a rules file is one`},
		{rule + "  - {name: a, subject: ip, limit: 1, window: 1s}", `test.yaml:7:5: a second rule is called "a", names should be unique`},
		{many(1001, "rules:", "  - {name: r%d, subject: ip, limit: 1, window: 1s}"), `test.yaml:1003:5: there are more than 1000 rules`},

		// Lists.
		{"version: 1\nlists: {}", `test.yaml:1:1: the key "rules" is missing, it should be a list of rules`},
		{"version: 1\nlists: [a]", `test.yaml:2:8: lists should be a mapping, such as {key: value}, here is a list`},
		{"version: 1\nlists: {a b: {values: [a]}}", `test.yaml:2:9: "a b" is no name of a list, it should be 1 to 64 of A-Z a-z 0-9 _ . -`},
		{"version: 1\nlists: {a: {values: [a]}, a: {values: [b]}}", `test.yaml:2:27: lists has "a" twice`},
		{"version: 1\nlists: {a: office.txt}", `test.yaml:2:12: a list should be a mapping, such as {key: value}, here is "office.txt"`},
		{"version: 1\nlists: {a: {}}", `test.yaml:2:12: list "a" should have either file or values, such as {file: lists/a.txt}`},
		{"version: 1\nlists: {a: {file: x.txt, values: [a]}}", `test.yaml:2:12: list "a" should have either file or values, such as {file: lists/a.txt}`},
		{"version: 1\nlists: {a: {values: []}}", `test.yaml:2:21: values is empty`},
		{"version: 1\nlists: {a: {values: [[a]]}}", `test.yaml:2:22: a value should be a text, here is a list`},
		{"version: 1\nlists: {a: {values: [10.0.0.0/33]}}", `test.yaml:2:22: "10.0.0.0/33" is no network, it should be such as 10.0.0.0/8 or fd00::/8`},
		{"version: 1\nlists: {a: {values: [" + strings.Repeat("x", 256) + "]}}", `test.yaml:2:22: a value is too long, a value has at most 255 bytes`},
		{"version: 1\nlists:\n  a: {file: no/such.txt}", `test.yaml:3:13: list "a" cannot be read: open no/such.txt: no such file or directory`},
		{"version: 1\nlists:\n  a: {file: .}", `test.yaml:3:13: list "a" cannot be read: . is no file`},
		{"version: 1\nlists: {a: {file: 1}}", `test.yaml:2:19: file should be a text: put it in quotes, "1"`},
		{many(1001, "lists:", "  l%d: {values: [a]}"), `test.yaml:1003:3: there are more than 1000 lists`},

		// Conditions.
		{rule + "    match:", `test.yaml:7:12: match should be a mapping, such as {key: value}, here is nothing`},
		{rule + "    match: {}", `test.yaml:7:12: match is empty, leave it out to match every request`},
		{rule + "    match: {a b: gold}", `test.yaml:7:13: "a b" is no part of a request, it should be route, method, tier, user, ip, device, session, or the name of an attribute (A-Z a-z 0-9 _ . -)`},
		{rule + "    match: {tier: x, tier: y}", `test.yaml:7:22: match has "tier" twice`},
		{rule + "    match: {tier: []}", `test.yaml:7:19: tier is empty`},
		{rule + "    match: {tier: 1}", `test.yaml:7:19: tier should be a text: put it in quotes, "1"`},
		{rule + "    match: {tier: a b}", `test.yaml:7:19: tier should be 1 to 64 of A-Z a-z 0-9 _ . -, here is "a b"`},
		{rule + "    match: {user:}", `test.yaml:7:18: user should be a text, here is nothing`},
		{rule + "    match: {user: [[a]]}", `test.yaml:7:20: user should be a text, here is a list`},
		{rule + "    match: {user: " + strings.Repeat("x", 256) + "}", `test.yaml:7:19: user is too long, a value has at most 255 bytes`},
		{rule + "    match: {method: post}", `test.yaml:7:21: method should be capitals, such as POST, here is "post"`},
		{rule + "    match: {route: v1}", `test.yaml:7:20: route "v1": a route begins with "/", such as "/v1/**"`},
		{rule + "    match: {route: /v1*}", "test.yaml:7:20: route \"/v1*\": `*` and `**` stand for whole segments, such as \"/v1/*/orders\""},
		{rule + "    match: {route: 1}", `test.yaml:7:20: route should be a text: put it in quotes, "1"`},
		{rule + "    match: {route: {list: office}}", `test.yaml:7:27: routes are patterns, write them into the condition itself`},
		{rule + "    match: {user: {list: office}}", `test.yaml:7:26: there is no list "office", it should stand under lists, such as lists: {office: {file: office.txt}}`},
		{rule + "    match: {user: {list: 1}}", `test.yaml:7:26: the name of a list should be a text: put it in quotes, "1"`},
		{rule + "    match: {plan: {}}", `test.yaml:7:19: the condition is empty, it should be such as gold, [gold, silver] or {not: gold}`},
		{rule + "    match: {plan: {neither: gold}}", `test.yaml:7:20: unknown key "neither": a condition has not, range, above, below, whole, any, all, cidr, list, present`},
		{rule + "    match: {plan: {not: {not: {}}}}", `test.yaml:7:31: the condition is empty, it should be such as gold, [gold, silver] or {not: gold}`},
		{rule + "    match: {plan: {present: maybe}}", `test.yaml:7:29: present should be true or false, here is "maybe"`},
		{rule + "    match: {plan: {not: a, not: b}}", `test.yaml:7:28: a condition has "not" twice`},
		{rule + "    match: {ip: 10.0.0.0/8}", `test.yaml:7:17: ip should be an address such as 192.0.2.1 or 2001:db8::1, here is "10.0.0.0/8"; networks stand in {cidr: […]}`},
		{rule + "    match: {ip: 1}", `test.yaml:7:17: ip should be a text: put it in quotes, "1"`},
		{rule + "    match: {ip: {cidr: 10.0.0.0}}", `test.yaml:7:24: cidr should be a network such as 10.0.0.0/8 or fd00::/8, here is "10.0.0.0"`},
		{rule + "    match: {ip: {cidr: 1}}", `test.yaml:7:24: cidr should be a text: put it in quotes, "1"`},
		{rule + "    match: {ip: {cidr: []}}", `test.yaml:7:24: cidr is empty`},
		{rule + "    match: {user: {cidr: 10.0.0.0/8}}", `test.yaml:7:20: cidr is for ip and attributes, not for user`},
		{rule + "    match: {size: {range: 5}}", `test.yaml:7:27: range should be a list, here is "5"`},
		{rule + "    match: {size: {range: [1]}}", `test.yaml:7:27: range should have two ends, such as [1, 100]`},
		{rule + "    match: {size: {range: [1, many]}}", `test.yaml:7:31: an end of range should be a number, here is "many"`},
		{rule + "    match: {size: {range: [.inf, 1]}}", `test.yaml:7:28: an end of range should be a number, here is ".inf"`},
		{rule + "    match: {size: {range: [2, 1]}}", `test.yaml:7:27: range should go from the lower number to the higher one, here is 2 to 1`},
		{rule + "    match: {tier: {range: [1, 2]}}", `test.yaml:7:27: tier is no number, range is for addresses, ids and attributes`},
		{rule + "    match: {size: {range: [1, 0x10]}}", `test.yaml:7:31: an end of range should be a number, here is "0x10"`},
		{rule + "    match: {size: 0x10}", `test.yaml:7:19: size should be a text: put it in quotes, "0x10"`},
		{rule + "    match: {size: 007}", `test.yaml:7:19: size should be a text: put it in quotes, "007"`},
		{rule + "    match: {user: 'j\xfcrgen'}", "test.yaml:7:19: \"j\ufffdrgen\" is not UTF-8, the file should be saved as UTF-8"},
		{"version: 1 # k\xfcche\nlists: {a: {values: [ann, b\xff]}}", "test.yaml:2:27: \"b\ufffd\" is not UTF-8, the file should be saved as UTF-8"},
		{rule + "    match: {beta: True}", `test.yaml:7:19: beta should be a text: put it in quotes, "True"`},
		{rule + "    match: {caller: ann}", `test.yaml:7:13: "caller" is no part of a request, it should be route, method, tier, user, ip, device, session, or the name of an attribute (A-Z a-z 0-9 _ . -)`},
		{rule + "    match: {ip: {range: [x, 10.0.0.1]}}", `test.yaml:7:26: ip should be an address such as 192.0.2.1 or 2001:db8::1, here is "x"; networks stand in {cidr: […]}`},
		{rule + "    match: {ip: {range: [10.0.0.1, 1]}}", `test.yaml:7:36: ip should be a text: put it in quotes, "1"`},
		{rule + "    match: {ip: {range: [10.0.0.2, 10.0.0.1]}}", `test.yaml:7:25: range should go from a lower address to a higher one of the same family, here is 10.0.0.2 to 10.0.0.1`},
		{rule + "    match: {ip: {range: [10.0.0.1, '::1']}}", `test.yaml:7:25: range should go from a lower address to a higher one of the same family, here is 10.0.0.1 to ::1`},
		{rule + "    match: {size: {above: many}}", `test.yaml:7:27: above should be a number, here is "many"`},
		{rule + "    match: {size: {above: '5'}}", `test.yaml:7:27: above should be a number, here is "5"`},
		{rule + "    match: {size: {below: [1]}}", `test.yaml:7:27: below should be a number, here is a list`},
		{rule + "    match: {ip: {whole: true}}", `test.yaml:7:18: whole is for ids and attributes, not for ip`},
		{rule + "    match: {ip: {above: 5}}", `test.yaml:7:18: above is for ids and attributes, not for ip`},
		{rule + "    match: {route: {below: 5}}", `test.yaml:7:21: below is for ids and attributes, not for route`},
		{rule + "    match: {method: {above: 5}}", `test.yaml:7:22: above is for ids and attributes, not for method`},
		{rule + "    match: {tier: {below: 5}}", `test.yaml:7:20: below is for ids and attributes, not for tier`},
		{rule + "    match: {size: {any: 5}}", `test.yaml:7:25: any should be a list, here is "5"`},
		{rule + "    match: {size: {any: []}}", `test.yaml:7:25: any is empty`},
		{rule + "    match: {size: {all: {a: b}}}", `test.yaml:7:25: all should be a list, here is a mapping`},
		{rule + "    match: {size: {all: []}}", `test.yaml:7:25: all is empty`},
		{rule + "    match: {size: {any: [5, {}]}}", `test.yaml:7:29: the condition is empty, it should be such as gold, [gold, silver] or {not: gold}`},
		{rule + "    match: {size: {any: [5, {all: [{between: 1}]}]}}", `test.yaml:7:37: unknown key "between": a condition has not, range, above, below, whole, any, all, cidr, list, present`},
		{rule + "    match: {tier: {any: [a b]}}", `test.yaml:7:26: tier should be 1 to 64 of A-Z a-z 0-9 _ . -, here is "a b"`},
		{rule + "    match: {ip: {any: [10.0.0.0/8]}}", `test.yaml:7:24: ip should be an address such as 192.0.2.1 or 2001:db8::1, here is "10.0.0.0/8"; networks stand in {cidr: […]}`},
		{rule + "    match: {method: {cidr: 10.0.0.0/8}}", `test.yaml:7:22: cidr is for ip and attributes, not for method`},
		{rule + "    match: {from: {cidr: 10.0.0.0/33}}", `test.yaml:7:26: cidr should be a network such as 10.0.0.0/8 or fd00::/8, here is "10.0.0.0/33"`},
		{rule + "    match: {from: {range: [10.0.0.1, x]}}", `test.yaml:7:38: from should be an address such as 192.0.2.1 or 2001:db8::1, here is "x"; networks stand in {cidr: […]}`},
		{rule + "    match: {from: {range: [10.0.0.1, 1]}}", `test.yaml:7:38: from should be a text: put it in quotes, "1"`},
		{rule + "    match: {from: {range: ['1', '2']}}", `test.yaml:7:28: an end of range should be a number, here is "1"`},
		{rule + "    match: {from: {range: [1, 10.0.0.1]}}", `test.yaml:7:31: an end of range should be a number, here is "10.0.0.1"`},
		{rule + "    match: {from: {range: [10.0.0.1, '::1']}}", `test.yaml:7:27: range should go from a lower address to a higher one of the same family, here is 10.0.0.1 to ::1`},
		{rule + "    match: {user: {range: [10.0.0.1, 10.0.0.2]}}", `test.yaml:7:28: an end of range should be a number, here is "10.0.0.1"`},
		{rule + "    match: {User: ann}", `test.yaml:7:13: "User" is no part of a request, it should be route, method, tier, user, ip, device, session, or the name of an attribute (A-Z a-z 0-9 _ . -)`},
		{rule + "    match: {IP: ann}", `test.yaml:7:13: "IP" is no part of a request, it should be route, method, tier, user, ip, device, session, or the name of an attribute (A-Z a-z 0-9 _ . -)`},
		{rule + "    match: {1st: ann}", `test.yaml:7:13: "1st" is no part of a request, it should be route, method, tier, user, ip, device, session, or the name of an attribute (A-Z a-z 0-9 _ . -)`},

		// Rules.
		{rule + "    shadow: yes", `test.yaml:7:13: shadow should be true or false, here is "yes"`},
		{rule + "    public: Ours", `test.yaml:7:13: public should be true, false or a name for callers, 1 to 64 of a-z 0-9 -, here is "Ours"`},
		{rule + "    cost: 0", `test.yaml:7:11: cost should be a whole number from 1 to 1000000, here is "0"`},
		{rule + "    cost: a b", `test.yaml:7:11: cost should be a number or the name of a numeric attribute (A-Z a-z 0-9 _ . -), here is "a b"`},
		{rule + "    cost: user", `test.yaml:7:11: cost should be a number or the name of a numeric attribute, and user is a part of every request`},
		{rule + "    cost: 1.5", `test.yaml:7:11: cost should be a whole number from 1 to 1000000, here is "1.5"`},
		{rule + "    metod: POST", `test.yaml:7:5: unknown key "metod": a rule has name, match, subject, joint, algorithm, action, limit, window, windows, burst, base, zone, overrides, cost, count_rejected, on_exceed, on_store_error, shadow, public`},
		{rule + "    count_rejected: 1", `test.yaml:7:21: count_rejected should be true or false, here is "1"`},
		{rule + "    on_store_error: wait", `test.yaml:7:21: on_store_error should be open, closed or local, here is "wait"`},
		{rule + "    algorithm: leaky_bucket", `test.yaml:7:16: algorithm should be sliding_log, sliding_counter, fixed_window, gcra, base or direct, here is "leaky_bucket"`},
		{rule + "    joint: ip", `test.yaml:7:5: joint has "ip", which is no part of the subject user`},
		{rule + "    joint: [user, user]", `test.yaml:7:19: joint has "user" twice`},
		{one("name: A"), `test.yaml:3:10: name should be 1 to 64 of a-z 0-9 -, here is "A"`},
		{one("name: &x a"), `test.yaml:3:10: name should be a text; anchors, aliases and tags are not read, write the value itself`},
		{one("subject: ip"), `test.yaml:3:3: the rule has no name, it should have "name", 1 to 64 of a-z 0-9 -`},
		{one("name: a, limit: 1, window: 1s"), `test.yaml:3:3: rule "a" has no subject, it should say whom it counts, such as "subject: [caller]"`},
		{one("name: a, subject: [user, user]"), `test.yaml:3:29: subject has "user" twice`},
		{one("name: a, subject: User"), `test.yaml:3:22: subject has "User", it should be written user`},
		{one("name: a, subject: [user, route]"), `test.yaml:3:29: subject has "route", which describes the request and not its sender; it should stand in match`},
		{one("name: a, subject: [a, b, c, d, e, f, g, h, i]"), `test.yaml:3:47: subject has more than 8 parts`},
		{one("name: a, subject: ip, limit: 1"), `test.yaml:3:3: rule "a" is not complete, it should have either "limit" and "window", or "windows"`},
		{one("name: a, subject: ip, window: 1s"), `test.yaml:3:3: rule "a" is not complete, it should have either "limit" and "window", or "windows"`},

		// Direct rules.
		{one("name: a, algorithm: direct"), `test.yaml:3:3: rule "a" is direct and has no action, it should be allow, deny or challenge`},
		{one("name: a, algorithm: direct, action: ban"), `test.yaml:3:40: action should be allow, deny or challenge, here is "ban"`},
		{one("name: a, algorithm: direct, action: deny, window: 1s, limit: 1"), `test.yaml:3:46: rule "a" is direct, it counts nothing and has no window`},
		{rule + "    action: allow", `test.yaml:7:5: action is for algorithm: direct; what follows from too many requests stands in on_exceed`},

		// Limits.
		{one("name: a, limit: -1"), `test.yaml:3:20: limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "-1"`},
		{one("name: a, limit: 010"), `test.yaml:3:20: limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "010", which some readers of YAML take for octal: write 10`},
		{one("name: a, limit: {gold: -01_0}"), `test.yaml:3:27: limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "-01_0", which some readers of YAML take for octal: write -10`},
		{one("name: a, cost: 0100"), `test.yaml:3:19: cost should be a whole number from 1 to 1000000, here is "0100", which some readers of YAML take for octal: write 100`},
		{one("name: a, limit: 1.5"), `test.yaml:3:20: limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "1.5"`},
		{one("name: a, limit: 99999999999999999999"), `test.yaml:3:20: limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "99999999999999999999"`},
		{one("name: a, limit: many"), `test.yaml:3:20: limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "many"`},
		{one("name: a, limit: {}"), `test.yaml:3:20: limit is empty, it should be such as {registered: 100, default: 10}`},
		{one("name: a, limit: {x: 1, x: 2}"), `test.yaml:3:27: limit has "x" twice`},
		{one("name: a, limit: {default: 1, default: 2}"), `test.yaml:3:33: limit has "default" twice`},
		{one("name: a, limit: {a b: 1}"), `test.yaml:3:21: "a b" is not the name of a tier, it should be 1 to 64 of A-Z a-z 0-9 _ . -`},
		{one("name: a, limit: {x: many}"), `test.yaml:3:24: limit should be a whole number from 0 (denies all) to 1000000000, or unlimited, here is "many"`},

		// Windows.
		{rule + "    windows: [{limit: 1, window: 1s}]", `test.yaml:5:5: rule "a" has limit and windows, it should have either "limit" and "window", or "windows"`},
		{rule + "    windows: []", `test.yaml:7:14: windows is empty`},
		{one("name: a, subject: user, burst: 2, windows: [{limit: 1, window: 1s}]"), `test.yaml:3:28: rule "a" has burst and windows, it should have either "limit" and "window", or "windows"`},
		{one("name: a, window: 60"), `test.yaml:3:21: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, or minute, hour, day or month, here is "60"`},
		{one("name: a, window: 1us"), `test.yaml:3:21: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, or minute, hour, day or month, here is "1us"`},
		{one("name: a, window: 9000h"), `test.yaml:3:21: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, or minute, hour, day or month, here is "9000h"`},
		{one("name: a, window: week"), `test.yaml:3:21: window should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, or minute, hour, day or month, here is "week"`},
		{one("name: a, windows: [{limit: 1}]"), `test.yaml:3:23: the window is not complete, it should be such as {limit: 5, window: 10s}`},
		{one("name: a, windows: [{limit: 1, window: 1s}, {limit: 2, window: 1000ms}]"), `test.yaml:3:47: another window has the same length; keep only the one with the lower limit`},
		{one("name: a, windows: [{limit: 1, window: day}, {limit: 2, window: day}]"), `test.yaml:3:48: another window has the same length; keep only the one with the lower limit`},
		{one("name: a, windows: [{limit: 1, window: 1s}, {limit: 1, window: 2s}, {limit: 1, window: 3s}, {limit: 1, window: 4s}, {limit: 1, window: 5s}, {limit: 1, window: 6s}, {limit: 1, window: 7s}, {limit: 1, window: 8s}, {limit: 1, window: 9s}]"), `test.yaml:3:215: the rule has more than 8 windows`},
		{one("name: a, subject: user, limit: 1, window: day, zone: Europe/Atlantis"), `test.yaml:3:57: zone "Europe/Atlantis" is unknown, it should be a name such as Asia/Shanghai, Europe/Berlin or UTC`},
		{one("name: a, subject: user, limit: 1, window: day, zone: Local"), `test.yaml:3:57: zone "Local" is unknown, it should be a name such as Asia/Shanghai, Europe/Berlin or UTC`},
		{one("name: a, subject: user, limit: 1, window: 24h, zone: UTC"), `test.yaml:3:51: zone is for windows of the calendar: minute, hour, day or month`},
		{one("name: a, subject: user, limit: 1, window: day, algorithm: gcra"), `test.yaml:3:38: a window of the calendar is for algorithm: fixed_window; gcra needs a duration such as 24h`},
		{one("name: a, subject: user, limit: 100001, window: 1s, algorithm: sliding_log"), `test.yaml:3:55: sliding_log keeps a time for each unit, at most 100000; for a limit of 100001 use sliding_counter`},
		{one("name: a, subject: user, limit: 1, window: 1s, burst: 2"), `test.yaml:3:50: burst is for algorithm: gcra`},
		{one("name: a, subject: user, windows: [{limit: 1, window: 1s, burst: 2}]"), `test.yaml:3:61: burst is for algorithm: gcra`},
		{one("name: a, subject: user, windows: [{limit: 1, window: 1s, algorithm: direct}]"), `test.yaml:3:72: algorithm should be sliding_log, sliding_counter, fixed_window, gcra or base, here is "direct"`},
		{one("name: a, subject: user, windows: [{limit: 1, window: day, algorithm: gcra}]"), `test.yaml:3:49: a window of the calendar is for algorithm: fixed_window; gcra needs a duration such as 24h`},
		{one("name: a, subject: user, windows: [{limit: 1, window: 1s}, {limit: 2, window: 1s, algorithm: sliding_log}]"), `test.yaml:3:62: another window has the same length; keep only the one with the lower limit`},
		{one("name: a, subject: user, limit: 20000, window: 1s, algorithm: gcra"), `test.yaml:3:54: gcra lets at most one unit pass in 100 µs, which is 10000 in 1s; for a limit of 20000 use sliding_counter`},
		{one("name: a, subject: user, limit: 1, window: 8784h, algorithm: gcra, burst: 11"), `test.yaml:3:53: a burst of 11 at 1 in 8784h0m0s takes more than ten years to pass`},
		{one("name: a, subject: user, limit: 1, window: 1s, algorithm: base"), `test.yaml:3:50: rule "a" has no base, it should be such as {limit: 30, window: day}`},
		{one("name: a, subject: user, limit: 100001, window: 1s, algorithm: base, base: {limit: 1, window: 1s}"), `test.yaml:3:55: the limit after the base should be at most 100000, here is 100001`},
		{one("name: a, subject: user, limit: 1, window: 1s, base: {limit: 1, window: 1s}"), `test.yaml:3:50: base is for algorithm: base`},
		{one("name: a, base: {limit: 1}"), `test.yaml:3:19: base is not complete, it should be such as {limit: 30, window: day}`},
		{one("name: a, base: {limit: 0, window: day}"), `test.yaml:3:27: limit should be a whole number from 1 to 1000000000, here is "0"`},

		// Overrides.
		{rule + "    overrides: []", `test.yaml:7:16: overrides is empty`},
		{rule + "    overrides: [{limit: 2}]", `test.yaml:7:17: an override should have match and either limit or windows, such as {match: {user: {list: office}}, limit: unlimited}`},
		{rule + "    overrides: [{match: {tier: x}}]", `test.yaml:7:17: an override should have match and either limit or windows, such as {match: {user: {list: office}}, limit: unlimited}`},
		{rule + "    overrides: [{match: {tier: x}, limit: 2, windows: [{limit: 2, window: 1s}]}]", `test.yaml:7:17: an override should have match and either limit or windows, such as {match: {user: {list: office}}, limit: unlimited}`},
		{rule + "    overrides: [{match: {tier: x}, windows: [{limit: 2, window: 1s}, {limit: 3, window: 2s}]}]", `test.yaml:7:17: the override has 2 windows, it should have the 1 of the rule`},
		{rule + "    overrides: [{match: {tier: x}, windows: [{limit: 2, window: 2s}]}]", `test.yaml:7:17: the override has no window of 1s, it should have the windows of the rule`},
		{rule + "    overrides: [{match: {tier: x}, windows: [{limit: 2, window: 1s, burst: 3}]}]", `test.yaml:7:69: an override has no burst and no base, the rule's hold`},
		{one("name: a, subject: ip, windows: [{limit: 1, window: 1s}, {limit: 2, window: 2s}], overrides: [{match: {tier: x}, limit: 2}]"), `test.yaml:3:97: rule "a" has 2 windows: the override should have windows as well, or limit: 0 or unlimited`},
		{rule + "    overrides: [" + strings.Repeat("{match: {tier: x}, limit: 2}, ", 1001) + "]", `test.yaml:7:30017: the rule has more than 1000 overrides`},

		// What follows.
		{rule + "    on_exceed: allow", `test.yaml:7:16: on_exceed should be deny, challenge or ban, here is "allow"`},
		{rule + "    on_exceed: {for: 1m}", `test.yaml:7:16: on_exceed has no action, it should be deny, challenge or ban`},
		{rule + "    on_exceed: {action: deny, for: 1m, within: 1m}", `test.yaml:7:31: on_exceed has for, which is for action: ban`},
		{rule + "    on_exceed: {action: ban, after: 0}", `test.yaml:7:37: after should be a whole number from 1 to 1000, here is "0"`},
		{rule + "    on_exceed: {action: ban, after: 1001}", `test.yaml:7:37: after should be a whole number from 1 to 1000, here is "1001"`},
		{rule + "    on_exceed: {action: ban, for: day}", `test.yaml:7:35: for should be a duration of whole milliseconds from 1ms to 8784h, such as 10s, 1m or 24h, here is "day"`},
		{rule + "    on_exceed: {action: ban, growing: 2}", `test.yaml:7:39: growing should be true or false, here is "2"`},
		{rule + "    on_exceed: {action: ban, at_most: 1h}", `test.yaml:7:30: on_exceed has at_most, which is for growing: true`},
		{rule + "    on_exceed: {action: ban, for: 2h, growing: true, at_most: 1h}", `test.yaml:7:54: at_most is 1h0m0s, it should not be less than the 2h0m0s of the first ban`},
		{one("name: a, subject: session, limit: 1, window: 1s, on_exceed: ban"), `test.yaml:3:53: rule "a" bans and counts session: its subject should be one of user, ip, network, caller, device`},
		{one("name: a, subject: [user, ip], limit: 1, window: 1s, on_exceed: ban"), `test.yaml:3:56: rule "a" bans and counts user, ip: its subject should be one of user, ip, network, caller, device`},
		{one("name: a, subject: user, joint: user, limit: 1, window: 1s, on_exceed: ban"), `test.yaml:3:63: rule "a" bans and counts several subjects together: leave out joint or ban`},

		// Other sections.
		{rule + "answer: last", `test.yaml:7:9: answer should be strongest or first, here is "last"`},
		{rule + "answer: first\nanswer: first", `test.yaml:8:1: a rules file has "answer" twice`},
		{rule + "bans: {allow: office}", `test.yaml:7:15: there is no list "office", it should stand under lists, such as lists: {office: {file: office.txt}}`},
		{rule + "bans: {alow: [office]}", `test.yaml:7:8: unknown key "alow": bans has allow, run, per_minute, widest_v4, widest_v6`},
	} {
		_, err := rules.Parse("test.yaml", []byte(c.src))
		var place *rules.Error
		if !errors.As(err, &place) {
			t.Errorf("%.200q: %v is no Error", c.src, err)
			continue
		}
		if place.Error() != c.want {
			t.Errorf("%.200q:\n got %s\nwant %s", c.src, place, c.want)
		}
	}
}

// one is a file with one rule.
func one(rule string) string { return "version: 1\nrules:\n- {" + rule + "}" }

// many is a file with n lines of one section.
func many(n int, section, line string) string {
	var b strings.Builder
	b.WriteString("version: 1\n" + section + "\n")
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i)
	}
	return b.String()
}
