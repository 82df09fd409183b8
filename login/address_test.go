package login_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

// A customer has a /64 at least: all its addresses are one.
func TestRotationWithinANetworkOf64IsOneAddress(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		b := newBans(c)
		th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}, Bans: b})
		for i := range 30 {
			a := attempt(fmt.Sprint("user", i), fmt.Sprintf("2001:db8:1:2:%x::%x", i, i*7))
			if i%2 == 1 {
				a.IP = a.IP.WithZone("eth0")
			}
			a.Captcha = "right"
			if d, _ := try(t, th, a, login.Failure); d.Action != login.Allow {
				t.Fatalf("guess %d: %+v", i+1, d)
			}
		}
		if d, _ := try(t, th, attempt("somebody", "2001:db8:1:2:ffff::1"), login.Failure); d.Reason != login.ReasonBanned {
			t.Errorf("the same /64: %+v", d)
		}
		if d, _ := try(t, th, attempt("somebody", "2001:db8:1:3::1"), login.Failure); d.Action != login.Allow {
			t.Errorf("another /64: %+v", d)
		}
	})
}

// A /48 costs hardly more, and has 65,536 of them.
func TestRotationWithinANetworkOf48IsChallenged(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		guesses := 0
		for i := range 1000 {
			d, _ := try(t, th, attempt(fmt.Sprint("user", i), fmt.Sprintf("2001:db8:1:%x::1", i)), login.Failure)
			if d.Action != login.Allow {
				if d.Action != login.Challenge || d.Reason != "network_failures" {
					t.Fatalf("%+v", d)
				}
				break
			}
			guesses++
		}
		if guesses != 240 {
			t.Errorf("%d guesses from a /48, want 240", guesses)
		}
		if d, _ := try(t, th, attempt("somebody", "2001:db8:2::1"), login.Failure); d.Action != login.Allow {
			t.Errorf("another /48: %+v", d)
		}
	})
}

// An IPv4 address is one however it is written, and has no network.
func TestAddressIsOneHoweverWritten(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		rules := rulesOf(t, "  - {count: ip, limit: 3, window: 10m, then: ban, for: 10m}\n  - {count: network, limit: 1, window: 10m, then: challenge}")
		b := newBans(c)
		th := throttle(t, store, rules, login.Options{Bans: b})
		for i, ip := range []string{"192.0.2.1", "::ffff:192.0.2.1", "64:ff9b::192.0.2.1"} {
			if d, _ := try(t, th, attempt(fmt.Sprint("user", i), ip), login.Failure); d.Action != login.Allow {
				t.Fatalf("%s: %+v", ip, d)
			}
		}
		if left, ok := b.until["192.0.2.1"]; !ok || time.Duration(left-c.now())*time.Microsecond != 10*time.Minute || b.count() != 1 {
			t.Errorf("bans: %v", b.until)
		}
	})
}

func TestMaskShowsNoAddress(t *testing.T) {
	for ip, want := range map[string]string{
		"203.0.113.7": "203.0.113.x", "::ffff:203.0.113.7": "203.0.113.x", "2001:db8:1:2:3::4": "2001:db8:1::/48", "fe80::1%eth0": "fe80::/48",
	} {
		if got := login.Mask(netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s is shown as %s, want %s", ip, got, want)
		}
	}
	if got := login.Mask(netip.Addr{}); got != "" {
		t.Errorf("no address is shown as %s", got)
	}
}
