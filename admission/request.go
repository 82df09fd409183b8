package admission

import (
	"fmt"
	"net/netip"
)

// Default tiers of a Request that names none.
const (
	TierRegistered = "registered" // with a user
	TierAnonymous  = "anonymous"  // without
)

// MaxCost is the highest cost of one Request.
const MaxCost = 1_000_000

// A Request is what a caller wants to do, as far as rules look at it. The zero value is a request without a caller. Rules that count a
// part that is empty do not apply.
type Request struct {
	User string // stable id of the signed-in user; empty if not signed in

	// IP is the address of the client, after trusted proxies have been resolved. The gate itself makes it canonical, so that callers
	// cannot forget to: an IPv4-mapped or NAT64 address is its IPv4 address. Of any other IPv6 address only the first 64 bits count,
	// because one customer owns the whole /64. The zero Addr is no address.
	IP netip.Addr

	Device  string
	Session string

	Tier   string // empty: registered with a user, anonymous without
	Route  string // URL path, such as /v1/sales/spring/orders; empty segments are ignored
	Method string // HTTP method in capitals

	Attributes map[string]string // anything else that rules count, by name

	Cost int // units, 1 to MaxCost; 0 means 1. Rules multiply it by their own cost

	// Solved means that the caller has just solved a CAPTCHA for this request: rules that demand a challenge do not refuse it. Package
	// admission does not verify this; see package captcha. Other rules, and a cost above the whole limit, refuse as usual.
	Solved bool

	// ID is an idempotency key: within a minute the same ID of the same subject is charged once and gets the same answer, even after a
	// refund. A new attempt needs a new ID. Empty, or 1 to 255 bytes. At least the last 128 answers per subject are recorded, one for
	// each window that counted.
	ID string
}

func (r Request) withDefaults() Request {
	if r.Tier == "" {
		r.Tier = TierAnonymous
		if r.User != "" {
			r.Tier = TierRegistered
		}
	}
	if r.Cost == 0 {
		r.Cost = 1
	}
	return r
}

func (r Request) validate() error {
	if r.Cost < 0 || r.Cost > MaxCost {
		return fmt.Errorf("%w: cost is %d, should be 1 to %d", ErrInvalidRequest, r.Cost, MaxCost)
	}
	if len(r.ID) > 255 {
		return fmt.Errorf("%w: ID has %d bytes, should have at most 255", ErrInvalidRequest, len(r.ID))
	}
	return nil
}

// Address returns the part of ip that is counted, or "" for none: an IPv4 address, also if it is embedded in an IPv6 address, or the
// first 64 bits of an IPv6 address.
func Address(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	ip = embedded4(ip.Unmap())
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // fails only above 128 bits; drops the zone
	return network.Addr().String()
}

// nat64 is the prefix of IPv4 addresses embedded in IPv6 (RFC 6052); all of them are in one /64.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// embedded4 returns the IPv4 address that a NAT64 translator embedded in ip, or ip.
func embedded4(ip netip.Addr) netip.Addr {
	if !nat64.Contains(ip) {
		return ip
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// Network returns the /48 network of an IPv6 address, which one site owns. It returns "" for IPv4, where neighbouring addresses are
// unrelated.
func Network(ip netip.Addr) string {
	if ip = embedded4(ip.Unmap()); !ip.Is6() {
		return ""
	}
	site, _ := ip.Prefix(48)
	return site.String()
}
