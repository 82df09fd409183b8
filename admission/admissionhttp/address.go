package admissionhttp

import (
	"net/http"
	"net/netip"
	"strings"
)

// ClientAddress finds the client of a request behind trusted proxies: the right-most address in X-Forwarded-For that no trusted
// proxy has. What stands left of it was sent by the client and may be a lie; so is the whole field if the connection itself
// does not come from a trusted proxy. An entry that is no address ends the search at the proxy that reported it.
//
// The address has no zone and is never an IPv4 address in IPv6 form. It is invalid where the connection has none, as on a Unix socket.
func ClientAddress(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // of an error comes the invalid address
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

// parseEntry reads one entry; some proxies add a port.
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

// plain makes one address of its spellings: IPv4 mapped into IPv6, and IPv6 with a zone.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
