package bans

import "net/netip"

// An Allowlist names those who must never be banned.
type Allowlist interface {
	// NeverBanned returns the name of the list that contains the user, the device or the address, or "".
	NeverBanned(user, device string, ip netip.Addr) (list string)
}

// spares returns why a target must not be banned, or "" if it may be banned. A network that contains an allowed address may be banned;
// that address is still admitted.
func spares(allow Allowlist, t Target) (why string) {
	switch t.Kind {
	case User:
		return onList(allow.NeverBanned(t.Value, "", netip.Addr{}))
	case Device:
		return onList(allow.NeverBanned("", t.Value, netip.Addr{}))
	}
	p, err := t.prefix()
	if err != nil {
		return ""
	}
	first, last := p.Addr(), lastOf(p)
	if first.IsLoopback() || last.IsLoopback() || p.Contains(netip.IPv6Loopback()) {
		return "it is this machine"
	}
	if list := allow.NeverBanned("", "", first); list != "" && allow.NeverBanned("", "", last) == list {
		return onList(list)
	}
	return ""
}

func onList(list string) (why string) {
	if list == "" {
		return ""
	}
	return "list " + list + " is never banned"
}

// lastOf returns the last address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}
