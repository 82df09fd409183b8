package admission_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/bans"
)

const office = `lists: {office: {values: [ann, tablet, 10.0.0.0/8, 203.0.113.7, "2001:db8::/32"]}}
bans: {allow: [office]}
`

// A target on a list of `bans: {allow: …}` is never banned, neither directly nor by a ban of its network.
func TestWhoIsNeverBanned(t *testing.T) {
	g := quickGate(t, memorystore.New(memorystore.Options{}), strikes+office)
	for _, target := range []bans.Target{
		{Kind: "user", Value: "ann"},
		{Kind: "device", Value: "tablet"},
		{Kind: "ip", Value: "10.1.2.3"},
		{Kind: "ip", Value: "::ffff:10.1.2.3"},
		{Kind: "ip", Value: "2001:db8:1:2::3"},
		{Kind: "network", Value: "10.1.0.0/16"},
		{Kind: "network", Value: "2001:db8:1::/48"},
	} {
		_, err := g.Ban(t.Context(), bans.Order{Target: target, For: time.Hour})
		if !errors.Is(err, bans.ErrRefused) || !strings.Contains(err.Error(), "list office") {
			t.Errorf("%+v: %v, want ErrBanRefused and the list", target, err)
		}
	}
	for _, target := range []bans.Target{
		{Kind: "user", Value: "bob"},
		{Kind: "user", Value: "10.1.2.3"}, // a name that looks like an address is none
		{Kind: "network", Value: "203.0.113.0/24"},
		{Kind: "network", Value: "2001::/16"},
	} {
		ban(t, g, target.Kind, target.Value, time.Hour)
	}
	for _, c := range []struct {
		user, device, ip string
		want             bool
	}{
		{"bob", "", "198.51.100.1", true},
		{"bob", "", "10.9.9.9", false},          // at the office
		{"bob", "tablet", "198.51.100.1", true}, // anybody can call a device so
		{"", "", "203.0.113.8", true},
		{"", "", "203.0.113.7", false},
		{"", "", "::ffff:203.0.113.7", false},
		{"ann", "", "203.0.113.8", false},
		{"", "", "2001:db8:9::1", false},
		{"", "", "2001:db9::1", true},
	} {
		req := admission.Request{User: c.user, Device: c.device, IP: netip.MustParseAddr(c.ip)}
		if got := isBanned(t, g, req); got != c.want {
			t.Errorf("%+v: banned %v, want %v", c, got, c.want)
		}
		e, err := g.Explain(t.Context(), req)
		if err != nil || (e.Ban != nil) != c.want || (e.Allowed == "office") == c.want {
			t.Errorf("%+v is explained as %+v, %v", c, e, err)
		}
	}

	// A list acts from the moment its rules do.
	setRules(t, g, parse(t, strikes))
	if !isBanned(t, g, admission.Request{IP: netip.MustParseAddr("203.0.113.7")}) {
		t.Error("the list outlived its rules")
	}
}

func TestStrikesOfWhoIsNeverBanned(t *testing.T) {
	g := gate(t, memorystore.New(memorystore.Options{}), "ns", strikes+office)
	for range 10 {
		if isBanned(t, g, admission.Request{User: "ann"}) {
			t.Fatal("banned for strikes")
		}
	}
	if n := len(g.Bans()); n != 0 {
		t.Errorf("%d bans", n)
	}
}
