package auth

import (
	"net/http"
	"net/netip"
)

// Proxies are the addresses of trusted proxies.
type Proxies []netip.Prefix

// MayNameUsers reports whether the sender of a request may name its user: a trusted proxy, or a program on this machine, unless
// it forwards a request of another client, which may have set X-User-ID.
func (p Proxies) MayNameUsers(r *http.Request) bool {
	peer := peerAddress(r.RemoteAddr)
	return p.contain(peer) || peer.IsLoopback() && forwarded(r) == ""
}

// forwardedFields are the fields that proxies add to the requests that they forward.
var forwardedFields = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Forwarded", "Via"}

// forwarded returns a field that shows that a proxy forwarded the request, or "".
func forwarded(r *http.Request) string {
	for _, name := range forwardedFields {
		if len(r.Header[name]) > 0 {
			return name
		}
	}
	return ""
}

func (p Proxies) contain(a netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// peerAddress returns the remote address of a connection from http.Request.RemoteAddr. Without one, as on a Unix socket, the
// result is invalid.
func peerAddress(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return Canonical(ap.Addr())
}

// Canonical returns the canonical form of an address: IPv4 mapped into IPv6 becomes IPv4, and a zone is removed.
func Canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
