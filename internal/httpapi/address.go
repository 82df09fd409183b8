package httpapi

import "net/netip"

// peerAddress is the address of a connection's other end, as http.Request has
// it in RemoteAddr. Without one, as on a Unix socket, it is invalid.
func peerAddress(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return plain(ap.Addr())
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// plain makes one address of its spellings: IPv4 mapped into IPv6, and IPv6 with a zone.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
