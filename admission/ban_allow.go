package admission

import "net/netip"

// neverBanned returns the list of `bans: {allow: …}` that contains the user, the device or the address, or "".
func (r *Rules) neverBanned(user, device string, ip netip.Addr) (list string) {
	ip = ip.Unmap().WithZone("")
	for _, l := range r.never {
		if l.names(user) || l.names(device) || ip.IsValid() && l.hasIP(ip) {
			return l.name
		}
	}
	return ""
}

// spares returns why a target must not be banned, or "" if it may be banned. A network that contains an allowed address may be banned;
// that address is still admitted.
func (r *Rules) spares(t BanTarget) (why string) {
	switch t.Kind {
	case BanUser:
		return onList(r.neverBanned(t.Value, "", netip.Addr{}))
	case BanDevice:
		return onList(r.neverBanned("", t.Value, netip.Addr{}))
	}
	p, err := t.prefix()
	if err != nil {
		return ""
	}
	first, last := p.Addr(), lastOf(p)
	if first.IsLoopback() || last.IsLoopback() || p.Contains(netip.IPv6Loopback()) {
		return "it is this machine"
	}
	if list := r.neverBanned("", "", first); list != "" && r.neverBanned("", "", last) == list {
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
