package login_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/login"
)

// The longest file of rules and the highest limit that there may be.
func TestHundredRulesAndAThousandFailures(t *testing.T) {
	var b strings.Builder
	for i := range 98 {
		fmt.Fprintf(&b, "  - {count: name, limit: %d, window: 1h, then: challenge}\n", 1000-i)
	}
	b.WriteString("  - {count: ip, limit: 1000, window: 1h, then: deny, for: 1h}\n")
	b.WriteString("  - {count: name_ip, limit: 1, window: 1m, then: delay, for: 1s}")
	rules := rulesOf(t, b.String())
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules, login.Options{})
		for i := range 1000 {
			a := attempt(fmt.Sprint("user", i), "192.0.2.1")
			if d, _ := try(t, th, a, login.Failure); d.Action != login.Allow {
				t.Fatalf("%d: %+v", i, d)
			}
			c.advance(time.Millisecond)
			if d, err := th.Check(t.Context(), a); i == 0 && (err != nil || d.Rule != "login-name-ip-1-in-1m-delay") {
				t.Fatalf("the last of the rules: %+v, %v", d, err)
			}
		}
		if d, err := th.Check(t.Context(), attempt("alice", "192.0.2.1")); err != nil || d.Rule != "login-ip-1000-in-1h-deny" {
			t.Errorf("after a thousand: %+v, %v", d, err)
		}
		all, err := th.RuleStates(t.Context(), login.Subject{IP: netip.MustParseAddr("192.0.2.1")})
		if err != nil || len(all) != 1 || all[0].Failed != 1000 || !all[0].Active {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// Rules that differ only in their limit stay distinct when limits are halved because the store is unavailable.
func TestHalvedRulesStayApart(t *testing.T) {
	server, _ := ownRedis(t, time.Second)
	server.Kill()
	store := redisAt(t, server)
	th := throttle(t, store, rulesOf(t, `
  - {count: name, limit: 3, window: 1m, then: challenge, for: 10s, growing: true}
  - {count: name, limit: 4, window: 1m, then: challenge, for: 10s, growing: true}`), login.Options{Logger: quietly, Captcha: everything{}})
	a := attempt("alice", "192.0.2.1")
	a.Captcha = "right"
	for range 2 {
		try(t, th, a, login.Failure)
	}
	a.Captcha = ""
	d, err := th.Check(t.Context(), a)
	if err != nil || d.Action != login.Challenge || !d.Degraded || d.RetryAfter > 10*time.Second {
		t.Errorf("the first penalty of either is ten seconds: %+v, %v", d, err)
	}
}
