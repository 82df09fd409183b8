// Package netaddr decides which part of an IP address identifies a client.
package netaddr

import (
	"net/netip"
)

// Address returns the part of ip that is counted, or "" for none: an IPv4 address, also if it is embedded in an IPv6 address, or the
// first 64 bits of an IPv6 address.
func Address(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	ip = Unembed(ip.Unmap())
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // fails only above 128 bits; drops the zone
	return network.Addr().String()
}

// nat64 is the prefix of IPv4 addresses embedded in IPv6 (RFC 6052); all of them are in one /64.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// Unembed returns the IPv4 address that a NAT64 translator embedded in ip, or ip.
func Unembed(ip netip.Addr) netip.Addr {
	if !nat64.Contains(ip) {
		return ip
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// Network returns the /48 network of an IPv6 address, which one site owns. It returns "" for IPv4, where neighbouring addresses are
// unrelated.
func Network(ip netip.Addr) string {
	if ip = Unembed(ip.Unmap()); !ip.Is6() {
		return ""
	}
	site, _ := ip.Prefix(48)
	return site.String()
}
