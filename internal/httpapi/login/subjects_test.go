package login

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/login"
)

func TestSince(t *testing.T) {
	base := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	event := func(rule, factor, ip string, second int) login.Event {
		return login.Event{Rule: rule, Factor: factor, IP: ip, At: base.Add(time.Duration(second) * time.Second)}
	}
	events := []login.Event{ // the newest first
		event("name", "otp", "", 6), event("other", "password", "", 5), event("pair", "password", "198.51.100.x", 4),
		event("pair", "password", "192.0.2.x", 3), event("name", "password", "", 2), event("name", "password", "", 1),
	}
	for _, tt := range []struct {
		rule   string
		count  login.Count
		factor string
		second int
	}{
		{"name", login.CountName, "password", 2},
		{"name", login.CountName, "otp", 6},
		{"name", login.CountName, "reset", 0},
		{"pair", login.CountNameIP, "password", 3},
		{"ip", login.CountIP, "password", 0},
		{"name", login.CountIP, "password", 0}, // a masked address stands for many
	} {
		s := &login.Subject{Name: "ann", IP: netip.MustParseAddr("192.0.2.7"), Factor: tt.factor}
		want := time.Time{}
		if tt.second > 0 {
			want = base.Add(time.Duration(tt.second) * time.Second)
		}
		if got := since(events, &login.RuleState{Rule: tt.rule, Count: tt.count}, s); !got.Equal(want) {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

func TestBannedAddress(t *testing.T) {
	for target, want := range map[bans.Target]string{
		{Kind: bans.IP, Value: "192.0.2.7"}:            "192.0.2.7",
		{Kind: bans.IP, Value: "2001:db8::"}:           "2001:db8::",
		{Kind: bans.Network, Value: "2001:db8:1::/48"}: "2001:db8:1::",
		{Kind: bans.Network, Value: "2001:db8::/32"}:   "invalid IP",
		{Kind: bans.Network, Value: "203.0.113.0/24"}:  "invalid IP",
		{Kind: bans.User, Value: "192.0.2.7"}:          "invalid IP",
		{Kind: bans.Device, Value: "2001:db8:1::/48"}:  "invalid IP",
	} {
		if got := bannedAddress(target).String(); got != want {
			t.Errorf("%v: %s, want %s", target, got, want)
		}
	}
}
