package request

import (
	"net/netip"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
)

// ParseAddress refuses an empty address: it would belong to no client, and rules would not count it.
func ParseAddress(s, at string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return ip, problem.InvalidAt(at, "must be an IPv4 or IPv6 address, such as 192.0.2.1")
	}
	return auth.Canonical(ip), nil
}
