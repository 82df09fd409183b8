package firewall

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/bans"
)

func TestNever(t *testing.T) {
	prefixes := func(all ...string) (p []netip.Prefix) {
		for _, s := range all {
			p = append(p, netip.MustParsePrefix(s))
		}
		return p
	}
	set, err := rules.Parse("rules.yaml", []byte(`version: 1
rules: [{name: r, subject: user, limit: 1, window: 1s}]
lists:
  office: {values: [198.51.100.7, 192.0.2.64/26, "2001:db8:1::9", "2001:db8:2::/48", 203.0.113.9/32, ann]}
bans: {allow: office, run: [/bin/true]}
`))
	if err != nil {
		t.Fatal(err)
	}
	own := prefixes("203.0.113.200/32", "2001:db8:5::1/128")
	proxies := prefixes("203.0.114.0/28", "2001:db8:6::/64")
	for target, why := range map[string]string{
		"ip 203.0.113.7":           "",
		"ip 10.0.0.1":              "",
		"ip 2001:db8::7":           "",
		"network 203.0.112.0/24":   "",
		"network 2001:db8::/48":    "",
		"ip ::ffff:203.0.113.7":    "",
		"network 203.0.112.0/23":   "it is wider than /24",
		"network 2001:db8::/47":    "it is wider than /48",
		"ip 198.51.100.7":          "list office is never banned",
		"network 198.51.100.0/24":  "list office is never banned", // around it
		"ip 192.0.2.65":            "list office is never banned",
		"network 192.0.2.0/24":     "list office is never banned",
		"ip 2001:db8:1::1":         "list office is never banned", // its /64
		"ip 2001:db8:2:1::1":       "list office is never banned",
		"ip 127.0.0.1":             "it is no client's address",
		"ip ::1":                   "it is no client's address",
		"ip 0.0.0.0":               "it is no client's address",
		"ip ::":                    "it is no client's address",
		"ip 169.254.1.1":           "it is no client's address",
		"ip fe80::1":               "it is no client's address",
		"ip 224.0.0.1":             "it is no client's address",
		"ip ff02::1":               "it is no client's address",
		"ip 255.255.255.255":       "it is no client's address",
		"ip 203.0.113.200":         "this machine has an address there",
		"network 203.0.113.192/26": "this machine has an address there",
		"ip 2001:db8:5::2":         "this machine has an address there",
		"ip 203.0.114.3":           "a trusted proxy is there",
		"network 203.0.114.0/24":   "a trusted proxy is there",
		"ip 2001:db8:6::1":         "a trusted proxy is there",
	} {
		kind, value, _ := strings.Cut(target, " ")
		parsed, err := bans.ParseTarget(kind, value)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		p, ok := parsed.Prefix()
		if got := never(p, set, own, proxies); !ok || got != why {
			t.Errorf("%s: %q, want %q", target, got, why)
		}
	}
	for _, kind := range []string{"user", "device"} {
		if p, ok := (bans.Target{Kind: bans.Kind(kind), Value: "203.0.113.7"}).Prefix(); ok {
			t.Errorf("%s is %v", kind, p)
		}
	}
}

func TestOwnAddresses(t *testing.T) {
	own, err := ownAddresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range own {
		if p == netip.MustParsePrefix("127.0.0.1/32") {
			return
		}
	}
	t.Errorf("no loopback in %v", own)
}

func TestSeconds(t *testing.T) {
	for left, want := range map[time.Duration]int64{1: 1, time.Second: 1, time.Second + 1: 2, time.Hour: 3600} {
		if got := seconds(left); got != want {
			t.Errorf("%v: %d, want %d", left, got, want)
		}
	}
}

// Targets that a firewall must not ban are not passed on, and are counted.
func TestRefused(t *testing.T) {
	s := newSite(t, recorder)
	proxy := netip.MustParsePrefix("203.0.114.0/28")
	w := s.worker(proxy)
	w.own = func() ([]netip.Prefix, error) { return []netip.Prefix{netip.MustParsePrefix("203.0.113.200/32")}, nil }
	network, _ := bans.ParseTarget("network", "198.51.0.0/16")
	refused := []bans.Target{address("203.0.114.3"), address("203.0.113.200"), address("169.254.1.1"), network}
	for _, target := range refused {
		s.ban(target, time.Hour)
		s.handle(w, target)
		s.handle(w, target)
	}
	for _, target := range []bans.Target{{Kind: bans.User, Value: "203.0.113.7"}, {Kind: bans.Device, Value: "d"}} {
		s.ban(target, time.Hour)
		s.handle(w, target)
	}
	s.wrote("refused", "")
	if n := w.count("ban", "refused"); n != 2*len(refused) {
		t.Errorf("%d were refused", n)
	}

	for i := range 3000 { // whom the log has heard of is not remembered for ever
		w.refuse(t.Context(), &bans.Ban{Target: bans.Target{Kind: bans.IP, Value: fmt.Sprint(i)}, Change: 1}, netip.Prefix{}, "")
	}
	if n := len(w.refused); n > 1001 {
		t.Errorf("%d are remembered", n)
	}

	// The list counts that is in force when the program is run.
	listed := address("203.0.113.7")
	s.ban(listed, time.Hour)
	s.obey("lists: {office: {values: [203.0.113.0/24]}}\nbans: {allow: office, run: " + s.argv() + "}")
	s.handle(w, listed)
	s.wrote("on the list", "")
	s.obey("bans: {run: " + s.argv() + "}")
	s.handle(w, listed)
	s.wrote("no longer on it", "<ban><203.0.113.7><3600><operator>")

	// Bans passed on before are removed, with or without a task.
	s.obey("lists: {office: {values: [203.0.113.0/24]}}\nbans: {allow: office, run: " + s.argv() + "}")
	s.handle(w, listed)
	s.wrote("on it again", "<unban><203.0.113.7>")
	s.handle(w, listed)
	s.lift(listed)
	s.handle(w, listed) // whoever is lifted is
	s.wrote("lifted", "<unban><203.0.113.7>")
}

// Users and devices make no tasks, nor does anything while there is no program.
func TestWhatMakesTasks(t *testing.T) {
	s := newSite(t, recorder)
	h := NewHistory(nowhere{}, s.rdb, s.namespace, s.rules.Load)
	event := func(id string, target bans.Target) bans.Event {
		return bans.Event{ID: id, At: time.Now(), Ban: bans.Ban{Target: target, Until: time.Now().Add(time.Hour)}}
	}
	record := func(events ...bans.Event) {
		t.Helper()
		if err := h.Record(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	pending := func() int64 {
		return s.rdb.LLen(context.Background(), "asynq:{"+Queue(s.namespace)+"}:pending").Val()
	}
	record(event("1", bans.Target{Kind: bans.User, Value: "ann"}), event("2", bans.Target{Kind: bans.Device, Value: "d"}))
	if n := pending(); n != 0 {
		t.Errorf("users and devices made %d tasks", n)
	}
	record(event("3", address("203.0.113.7")))
	record(event("3", address("203.0.113.7")), event("4", address("203.0.113.7"))) // by another process
	if n := pending(); n != 2 {
		t.Errorf("two events made %d tasks", n)
	}
	s.obey("bans: {per_minute: 1}")
	record(event("5", address("203.0.113.7")))
	if n := pending(); n != 2 {
		t.Errorf("without a program there are %d tasks", n)
	}
}
