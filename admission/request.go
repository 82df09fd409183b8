package admission

import (
	"fmt"
	"net/netip"
)

// Tiers that a Request has when it names none.
const (
	TierRegistered = "registered" // with a user
	TierAnonymous  = "anonymous"  // without
)

// MaxCost is the highest cost of one Request.
const MaxCost = 1_000_000

// A Request is what a caller wants to do, as far as rules look at it. The zero value is a request of nobody for nothing;
// rules that count a part which is empty here do not apply to it.
type Request struct {
	User string // stable id of the signed-in user; empty for nobody

	// IP is the address of the client, after trusted proxies have been resolved. The gate makes it canonical itself, so that
	// no caller can forget to: an IPv4 address in IPv6 form, mapped or by NAT64, is that IPv4 address, and of any other IPv6 address only the
	// first 64 bits count, because one customer owns all of them. The zero Addr is no address.
	IP netip.Addr

	Device  string
	Session string

	Tier   string // empty: registered with a user, anonymous without
	Route  string // path of the request, such as /v1/sales/spring/orders; empty segments do not count
	Method string // HTTP method in capitals

	Attributes map[string]string // whatever else rules count, by name

	Cost int // units, 1 to MaxCost; 0 means 1. A rule multiplies it by its own cost

	// Solved says that the caller has just proved to be human for this very request: what answers with a challenge does not refuse it.
	// Nothing in package admission checks that; see package captcha. Other rules, and a cost above the whole limit, refuse as ever.
	Solved bool

	// ID makes a resend harmless: within a minute the same ID of the same subject is charged once and gets the same answer,
	// after a refund too: a new attempt has a new ID.
	// Empty, or 1 to 255 bytes. Of one subject at least the last 128 answers are remembered, one for each window that counted.
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

// Address returns the part of ip that is counted, or "" for none: an IPv4 address, also where it stands in IPv6 form, or the first 64 bits of
// an IPv6 address.
func Address(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	ip = embedded4(ip.Unmap())
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // fails on more bits than an address has, which 64 is not; it drops the zone
	return network.Addr().String()
}

// nat64 is where IPv4 addresses stand within IPv6 (RFC 6052): all of them in one /64.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// embedded4 returns the IPv4 address that a translator wrote into ip, or ip.
func embedded4(ip netip.Addr) netip.Addr {
	if !nat64.Contains(ip) {
		return ip
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// Network returns the /48 network of an IPv6 address, which one site owns, or "": an IPv4 address tells nothing about its neighbours.
func Network(ip netip.Addr) string {
	if ip = embedded4(ip.Unmap()); !ip.Is6() {
		return ""
	}
	site, _ := ip.Prefix(48)
	return site.String()
}
