package login_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

// Rules may change between an attempt and its repeat, its outcome, and the end of its penalty.
func TestRulesChangeWhileStatesExist(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		many := rulesOf(t, `
  - {count: ip, limit: 100, window: 1h, then: ban, for: 1h}
  - {count: network, limit: 100, window: 1h, then: challenge}
  - {count: name_ip, limit: 2, window: 1m, then: deny, for: 10m}
  - {count: name, limit: 2, window: 1m, then: challenge, for: 10m, shadow: true}`)
		few := rulesOf(t, "  - {count: names_per_ip, limit: 3, window: 1m, then: challenge}")
		now := many
		th := throttle(t, store, func() *rules.Set { return now() }, login.Options{})
		a := attempt("alice", "192.0.2.1")
		for range 2 {
			try(t, th, a, login.Failure)
		}
		under, err := th.Reserve(t.Context(), attempt("bob", "192.0.2.1"))
		if err != nil || under.Action != login.Allow {
			t.Fatal(under, err)
		}
		a.ID = "again"
		before, err := th.Reserve(t.Context(), a)
		if err != nil || before.Action != login.Deny || before.Rule != "login-name-ip-2-in-1m-deny" {
			t.Fatal(before, err)
		}
		now = few
		again, err := th.Reserve(t.Context(), a)
		if err != nil || again.Action != login.Deny || again.Degraded || again.Rule != "" && again.Rule != before.Rule {
			t.Errorf("the same request under other rules: %+v, %v", again, err)
		}
		if _, err := th.Settle(t.Context(), under.ID, login.Failure); err != nil {
			t.Error(err)
		}
		a.ID = ""
		if d, _ := try(t, th, a, login.Failure); d.Action != login.Allow {
			t.Errorf("a rule that is gone denies: %+v", d)
		}
		all, err := th.RuleStates(t.Context(), login.Subject{IP: a.IP})
		if err != nil || len(all) != 1 || all[0].Failed != 2 {
			t.Errorf("names that failed: %+v, %v", all, err)
		}
		now = many
		if all, err := th.RuleStates(t.Context(), login.Subject{Name: "alice", IP: a.IP}); err != nil || len(all) != 3 || all[0].Failed != 4 {
			t.Errorf("the old rules again: %+v, %v", all, err)
		}
	})
}

// While rules change, or where a process kept its last good ones, two files are in force over one store. What either holds against somebody,
// the other one leaves alone.
func TestTwoFilesOverOneStore(t *testing.T) {
	for what, files := range map[string][2]string{
		"another limit": {
			"  - {count: name, limit: 3, window: 1m, then: challenge, for: 10m}", "  - {count: name, limit: 4, window: 1m, then: challenge, for: 10m}",
		},
		"another length": {
			"  - {count: name, limit: 4, window: 1m, then: challenge, for: 10m}", "  - {count: name, limit: 4, window: 1m, then: challenge, for: 5m}",
		},
		"a rule that the other has not": {
			"  - {count: name, limit: 4, window: 1m, then: challenge, for: 10m}\n  - {count: name_ip, limit: 4, window: 1h, then: deny, for: 1h}",
			"  - {count: name, limit: 4, consecutive: true, then: challenge}",
		},
	} {
		t.Run(what, func(t *testing.T) {
			eachStore(t, func(t *testing.T, store login.Store, c *clock) {
				opts := login.Options{Namespace: uuid.NewString()}
				a, b := throttle(t, store, rulesOf(t, files[0]), opts), throttle(t, store, rulesOf(t, files[1]), opts)
				allowed := 0
				for i := range 60 {
					th := a
					if i%2 == 1 {
						th = b
					}
					if d, _ := try(t, th, attempt("alice", "192.0.2.1"), login.Failure); d.Action == login.Allow {
						allowed++
					}
					c.advance(time.Second)
				}
				if allowed > 8 { // at worst both let in all they let in alone
					t.Errorf("%d of 60 guesses let in", allowed)
				}
			})
		})
	}
}

// A penalty stays in force when an operator changes a limit during it.
func TestAChangedLimitForgetsNoPenalty(t *testing.T) {
	for what, tt := range map[string]struct {
		before, after string
		failures      int
		want          login.Action
	}{
		"a stricter denial":      {"{count: name_ip, limit: 6, window: 15m, then: deny, for: 5m}", "{count: name_ip, limit: 5, window: 15m, then: deny, for: 5m}", 6, login.Deny},
		"a laxer one":            {"{count: name_ip, limit: 6, window: 15m, then: deny, for: 5m}", "{count: name_ip, limit: 9, window: 1h, then: deny, for: 1h}", 6, login.Deny},
		"in shadow before":       {"{count: name_ip, limit: 6, window: 15m, then: deny, for: 5m, shadow: true}", "{count: name_ip, limit: 6, window: 15m, then: deny, for: 5m}", 6, login.Deny},
		"a streak":               {"{count: name, limit: 10, consecutive: true, then: challenge}", "{count: name, limit: 6, consecutive: true, then: challenge}", 6, login.Challenge},
		"a CAPTCHA for too many": {"{count: name, limit: 3, window: 1m, then: challenge, for: 10m}", "{count: name, limit: 2, window: 1m, then: challenge, for: 10m}", 3, login.Challenge},
	} {
		t.Run(what, func(t *testing.T) {
			eachStore(t, func(t *testing.T, store login.Store, c *clock) {
				now := rulesOf(t, "  - "+tt.before)
				th := throttle(t, store, func() *rules.Set { return now() }, login.Options{})
				a := attempt("alice", "192.0.2.1")
				for range tt.failures {
					try(t, th, a, login.Failure)
				}
				now = rulesOf(t, "  - "+tt.after)
				c.advance(90 * time.Second) // beyond the windows of a minute
				if d, err := th.Check(t.Context(), a); err != nil || d.Action != tt.want {
					t.Errorf("%+v, %v; want %s", d, err, tt.want)
				}
			})
		})
	}
}

func TestARevokedDeviceStaysItUnderAnotherLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		now := rulesOf(t, "  - {count: name, limit: 3, window: 1h, then: challenge, for: 1h}\n  - {count: device, limit: 5, consecutive: true, then: revoke}")
		th := throttle(t, store, func() *rules.Set { return now() }, login.Options{})
		stolen := attempt("alice", "192.0.2.66")
		stolen.Device = device(t, th, "alice")
		attacked(t, th, "alice")
		for range 5 {
			if d, _ := try(t, th, stolen, login.Failure); d.Action != login.Allow {
				t.Fatal(d)
			}
		}
		now = rulesOf(t, "  - {count: name, limit: 3, window: 1h, then: challenge, for: 1h}\n  - {count: device, limit: 4, consecutive: true, then: revoke}")
		if d, err := th.Check(t.Context(), stolen); err != nil || d.Action != login.Challenge {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// After any number of rules files, a state has room for their data, and drops what is no longer needed.
func TestMarksOfManyFiles(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		file := func(then string) func() *rules.Set {
			text := ""
			for limit := range 95 {
				text += fmt.Sprintf("  - {count: name_ip, limit: %d, consecutive: true, shadow: true, then: %s, for: 1h}\n", limit+1, then)
			}
			return rulesOf(t, text)
		}
		now := file("challenge")
		th := throttle(t, store, func() *rules.Set { return now() }, login.Options{})
		a := attempt("alice", "192.0.2.1")
		for _, then := range []string{"challenge", "delay", "deny", "challenge", "delay"} {
			now = file(then)
			for range 2 {
				try(t, th, a, login.Failure)
			}
			all, err := th.RuleStates(t.Context(), login.Subject{Name: a.Name, IP: a.IP})
			if err != nil || len(all) != 95 || all[94].Failed < 2 {
				t.Fatalf("%d rules, %v", len(all), err)
			}
		}
	})
}

// A request id that is reused after its answer has expired is a new attempt, with a separate outcome.
func TestALateRequestIDHasItsOwnOutcome(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		a := attempt("alice", "192.0.2.1")
		a.ID = "click"
		first, _ := try(t, th, a, login.Failure)
		c.advance(63 * time.Second)
		if err := th.ForgetAnswers(t.Context()); err != nil { // Redis ends them by its own clock
			t.Fatal(err)
		}
		second, _ := try(t, th, a, login.Success)
		if second.ID == "" || second.ID == first.ID {
			t.Errorf("%+v after %+v", second, first)
		}
	})
}
