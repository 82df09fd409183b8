package login_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

// stepsOf returns the login rules of a file.
func stepsOf(t *testing.T, set *rules.Set) []login.Step {
	t.Helper()
	steps, err := login.Steps(set)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// The login rules of a file are available to its caller; a file without any has the built-in rules.
func TestStepsOfAFile(t *testing.T) {
	const minute = time.Minute
	for text, want := range map[string]login.Step{
		"{count: name, limit: 3, window: 1m, then: challenge, for: 10m}": {Count: "name", Limit: 3, Window: minute, Then: "challenge", For: 10 * minute},
		"{count: name_ip, limit: 1, window: 1s, then: deny, for: 5m, growing: true, shadow: true}": {
			Count: "name_ip", Limit: 1, Window: time.Second, Then: "deny", For: 5 * minute, Growing: true, AtMost: 24 * time.Hour, Shadow: true,
		},
		"{count: device, limit: 5, consecutive: true, then: revoke}": {Count: "device", Limit: 5, Consecutive: true, Then: "revoke"},
		"{count: ip, limit: 30, window: 10m, then: ban, for: 10m}":   {Count: "ip", Limit: 30, Window: 10 * minute, Then: "ban", For: 10 * minute},
	} {
		set, err := rules.Parse("test.yaml", []byte("version: 1\nlogin: ["+text+"]"), login.Section)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff([]login.Step{want}, stepsOf(t, set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	builtIn := stepsOf(t, rules.Default())
	without := rules.Of(rules.Rule{Name: "r", Subject: rules.User, Limit: 1, Window: time.Second})
	for name, set := range map[string]*rules.Set{"in Go": without, "zero": {}} {
		if diff := cmp.Diff(builtIn, stepsOf(t, set)); diff != "" {
			t.Errorf("rules %s (-want +got):\n%s", name, diff)
		}
	}
	names := make([]string, len(builtIn))
	for i := range builtIn {
		names[i] = builtIn[i].Name()
	}
	if diff := cmp.Diff([]string{
		"login-name-3-in-1m-challenge", "login-name-10-in-15m-challenge", "login-name-10-in-15m-delay", "login-name-100-in-a-row-challenge",
		"login-name-ip-10-in-15m-deny", "login-names-per-ip-10-in-10m-challenge", "login-ip-30-in-10m-ban", "login-network-240-in-10m-challenge",
		"login-device-5-in-a-row-revoke",
	}, names); diff != "" {
		t.Error(diff)
	}
	if builtIn[0].Limit = 999; stepsOf(t, without)[0].Limit != 3 {
		t.Error("a caller has changed the steps of others")
	}
}

// Login rules that were not checked with their file are checked when they are used; the built-in ones then apply.
func TestUncheckedSteps(t *testing.T) {
	set, err := rules.Parse("test.yaml", []byte("version: 1\nlogin: [{count: name}]"))
	if err != nil {
		t.Fatal(err)
	}
	var place *rules.Error
	if steps, err := login.Steps(set); !errors.As(err, &place) || place.Line != 2 || steps != nil {
		t.Errorf("%v, %v", steps, err)
	}
	th := throttle(t, memoryStore(newClock()), func() *rules.Set { return set }, login.Options{Logger: quietly})
	for i, want := range []login.Action{login.Allow, login.Allow, login.Allow, login.Challenge} {
		d, err := th.Reserve(t.Context(), login.Attempt{Name: "ann", IP: netip.MustParseAddr("192.0.2.1")})
		if err != nil || d.Action != want {
			t.Fatalf("attempt %d: %+v %v, want %s", i+1, d, err, want)
		}
		if d.Action == login.Allow {
			if _, err := th.Settle(t.Context(), d.ID, login.Failure); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Each error has its position and says what would be right.
func TestWrongSteps(t *testing.T) {
	const rule = "version: 1\nrules:\n  - name: a\n    subject: user\n    limit: 1\n    window: 1s\n"
	for _, c := range []struct{ src, want string }{
		{rule + "login: {count: name}", `test.yaml:7:8: login should be a list, here is a mapping`},
		{rule + "login: [{count: nme, limit: 3, window: 1m, then: deny}]", `test.yaml:7:17: count should be name, name_ip, ip, names_per_ip, network or device, here is "nme"`},
		{rule + "login: [{count: name, window: 1m, then: deny}]", `test.yaml:7:9: the login rule has no count, limit or then, it should be such as {count: name, limit: 3, window: 1m, then: challenge, for: 10m}`},
		{rule + "login: [{count: name, limit: 3, window: 1m, then: shout}]", `test.yaml:7:51: then should be challenge, delay, deny, ban or revoke, here is "shout"`},
		{rule + "login: [{count: name, limit: 3, then: challenge}]", `test.yaml:7:9: a login rule has either a window or consecutive: true, such as {count: name, limit: 3, window: 1m, then: challenge, for: 10m}`},
		{rule + "login: [{count: name, limit: 3, window: 1m, consecutive: true, then: challenge}]", `test.yaml:7:9: a login rule has either a window or consecutive: true, such as {count: name, limit: 3, window: 1m, then: challenge, for: 10m}`},
		{rule + "login: [{count: names_per_ip, limit: 3, consecutive: true, then: challenge}]", `test.yaml:7:9: names_per_ip counts within a window`},
		{rule + "login: [{count: ip, limit: 3, consecutive: true, then: challenge}]", `test.yaml:7:9: failures of an address do not come in a row: somebody else's success would end it. Give it a window`},
		{rule + "login: [{count: name, limit: 3, window: 1m, then: deny}]", `test.yaml:7:9: then: deny for a name would let any stranger lock its owner out; a name is challenged or delayed, name_ip may be denied`},
		{rule + "login: [{count: name_ip, limit: 3, window: 1m, then: ban, for: 1m}]", `test.yaml:7:9: then: ban is for ip, names_per_ip and network`},
		{rule + "login: [{count: device, limit: 3, window: 1m, then: deny}]", `test.yaml:7:9: then: revoke is for device, and nothing else is: without its token the device is like any other`},
		{rule + "login: [{count: name, limit: 3, window: 1m, then: delay}]", `test.yaml:7:9: then: delay needs a time, such as for: 10m`},
		{rule + "login: [{count: device, limit: 3, window: 1m, then: revoke, for: 1m}]", `test.yaml:7:9: a device token is revoked for good, leave out for`},
		{rule + "login: [{count: device, limit: 3, window: 1m, then: revoke}]", `test.yaml:7:9: then: revoke is for failures in a row, with consecutive: true: what lies in a window would be forgotten with it`},
		{rule + "login: [{count: name, limit: 3, consecutive: true, then: challenge, for: 1m, growing: true}]", `test.yaml:7:9: growing is for a rule with a window`},
		{rule + "login: [{count: name, limit: 3, window: 1m, then: challenge, growing: true}]", `test.yaml:7:9: growing needs a time to begin with, such as for: 5m`},
		{rule + "login: [{count: name, limit: 3, window: 1m, then: challenge, for: 1m, at_most: 1h}]", `test.yaml:7:9: at_most is for growing: true`},
		{rule + "login: [{count: name, limit: 3, window: 1m, then: challenge, for: 1h, growing: true, at_most: 1m}]", `test.yaml:7:9: at_most is 1m0s, less than for, which is 1h0m0s`},
		{rule + "login: [{count: name, limit: 1001, window: 1m, then: challenge}]", `test.yaml:7:30: limit should be a whole number from 1 to 1000, here is "1001"`},
		{rule + "login: [{count: name, limit: 3, window: 721h, then: challenge}]", `test.yaml:7:41: window should be at most 720h, here is 721h0m0s`},
		{rule + "login: [{count: ip, limit: 3, window: 1m, then: deny}, {count: ip, limit: 3, window: 60s, then: deny}]", `test.yaml:7:56: this login rule stands here twice: the same count, limit, window and action`},
	} {
		_, err := rules.Parse("test.yaml", []byte(c.src), login.Section)
		var place *rules.Error
		if !errors.As(err, &place) || place.Error() != c.want {
			t.Errorf("%.200q:\n got %v\nwant %s", c.src, err, c.want)
		}
	}
}
