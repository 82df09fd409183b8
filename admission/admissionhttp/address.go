package admissionhttp

import (
	"net/http"
	"net/netip"
	"strings"
)

// ClientAddress returns the client address of a request behind trusted proxies: the right-most address in X-Forwarded-For that does not
// belong to a trusted proxy. Entries to the left of it come from the client and may be forged. The whole field is ignored if the
// connection itself does not come from a trusted proxy. If an entry is not an address, the proxy that added it counts as the client.
//
// The address has no zone and is never an IPv4-mapped IPv6 address. It is invalid if the connection has no address, as on a Unix socket.
func ClientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero Addr on error
	client := plain(peer.Addr())
	forwarded := r.Header["X-Forwarded-For"]
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
			next, ok := parseEntry(strings.Trim(entry, " \t"))
			if !ok {
				return client
			}
			client = next
		}
	}
	return client
}

// parseEntry parses one entry of X-Forwarded-For, with or without a port.
func parseEntry(entry string) (netip.Addr, bool) {
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

// plain normalizes an address: it unmaps IPv4-mapped IPv6 addresses and drops the zone.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
