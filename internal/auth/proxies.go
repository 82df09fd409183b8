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
	if p.contain(peer) {
		return true
	}
	forwarded := len(r.Header["X-Forwarded-For"])+len(r.Header["Forwarded"])+len(r.Header["Via"]) > 0
	return peer.IsLoopback() && !forwarded
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
