package httpapi

import "net/netip"

// peerAddress returns the remote address of a connection from http.Request.RemoteAddr. Without one, as on a Unix socket, the
// result is invalid.
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

// plain returns the canonical form of an address: IPv4 mapped into IPv6 becomes IPv4, and a zone is removed.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
