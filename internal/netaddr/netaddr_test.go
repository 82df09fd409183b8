package netaddr_test

import (
	"net/netip"
	"testing"

	"github.com/tidegate/tidegate/internal/netaddr"
)

func TestAddressAndNetwork(t *testing.T) {
	for ip, want := range map[string]struct{ address, network string }{
		"192.0.2.1":                  {"192.0.2.1", ""},
		"0.0.0.0":                    {"0.0.0.0", ""},
		"255.255.255.255":            {"255.255.255.255", ""},
		"::ffff:192.0.2.1":           {"192.0.2.1", ""}, // mapped
		"64:ff9b::192.0.2.1":         {"192.0.2.1", ""}, // by NAT64
		"64:ff9b::":                  {"0.0.0.0", ""},
		"64:ff9b:0:0:0:1::":          {"64:ff9b::", "64:ff9b::/48"}, // beside its prefix
		"64:ff9a:ffff:ffff::1":       {"64:ff9a:ffff:ffff::", "64:ff9a:ffff::/48"},
		"64:ff9b:1::192.0.2.1":       {"64:ff9b:1::", "64:ff9b:1::/48"}, // local use, RFC 8215: whose embedding nobody but its network can tell
		"2001:db8::1":                {"2001:db8::", "2001:db8::/48"},
		"2001:db8:1:2:3:4:5:6":       {"2001:db8:1:2::", "2001:db8:1::/48"},
		"2001:db8:1:2:ffff::":        {"2001:db8:1:2::", "2001:db8:1::/48"},
		"2001:db8:1:3::":             {"2001:db8:1:3::", "2001:db8:1::/48"},
		"fe80::1%eth0":               {"fe80::", "fe80::/48"},
		"::1":                        {"::", "::/48"},
		"::":                         {"::", "::/48"},
		"ffff:ffff:ffff:ffff:ffff::": {"ffff:ffff:ffff:ffff::", "ffff:ffff:ffff::/48"},
	} {
		addr := netip.MustParseAddr(ip)
		if got := netaddr.Address(addr); got != want.address {
			t.Errorf("Address(%s) = %q, want %q", ip, got, want.address)
		}
		if got := netaddr.Network(addr); got != want.network {
			t.Errorf("Network(%s) = %q, want %q", ip, got, want.network)
		}
	}
	if address, network := netaddr.Address(netip.Addr{}), netaddr.Network(netip.Addr{}); address != "" || network != "" {
		t.Errorf("of no address: %q, %q", address, network)
	}
}

func TestUnembed(t *testing.T) {
	for ip, want := range map[string]string{
		"64:ff9b::1.2.3.4": "1.2.3.4", "64:ff9b::ffff:ffff": "255.255.255.255", "64:ff9b::1:0:0": "64:ff9b::1:0:0", "1.2.3.4": "1.2.3.4",
		"::ffff:1.2.3.4": "::ffff:1.2.3.4", "2001:db8::1": "2001:db8::1",
	} {
		if got := netaddr.Unembed(netip.MustParseAddr(ip)).String(); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}
