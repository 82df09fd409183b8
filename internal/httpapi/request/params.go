package request

import (
	"context"
	"net/netip"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/orders"
)

// OrderID parses the id of a request's order, and records it.
func OrderID(ctx context.Context, id string) (orders.ID, error) {
	parsed, err := orders.ParseID(id)
	if err == nil {
		Of(ctx).Order = parsed
	}
	return parsed, err
}

// ParseAddress refuses an empty address: it would belong to nobody, and rules would not count it.
func ParseAddress(s, at string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		return ip, problem.InvalidAt(at, "must be an IPv4 or IPv6 address, such as 192.0.2.1")
	}
	return auth.Canonical(ip), nil
}
