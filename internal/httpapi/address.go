package httpapi

import (
	"net/netip"
	"strings"
)

// peerAddress is the address of a connection's other end, as http.Request has
// it in RemoteAddr. Without one, as on a Unix socket, it is invalid.
func peerAddress(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return plain(ap.Addr())
}

// clientAddress finds the client behind trusted proxies: the right-most
// address in X-Forwarded-For that no trusted proxy has. What stands left of it
// was sent by the client and may be a lie. An entry that is no address
// ends the search at the proxy that reported it.
func clientAddress(peer netip.Addr, forwarded []string, trusted []netip.Prefix) netip.Addr {
	client := plain(peer)
	for i := len(forwarded) - 1; i >= 0; i-- {
		for line, more := forwarded[i], true; more; {
			if !within(trusted, client) {
				return client
			}
			var entry string
			if at := strings.LastIndexByte(line, ','); at >= 0 {
				line, entry = line[:at], line[at+1:]
			} else {
				entry, more = line, false
			}
			next, ok := forwardedAddress(strings.Trim(entry, " \t"))
			if !ok {
				return client
			}
			client = next
		}
	}
	return client
}

// forwardedAddress reads one entry; some proxies add a port.
func forwardedAddress(entry string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]")); err == nil {
		return plain(a), true
	}
	if ap, err := netip.ParseAddrPort(entry); err == nil {
		return plain(ap.Addr()), true
	}
	return netip.Addr{}, false
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
