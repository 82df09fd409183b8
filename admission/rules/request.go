package rules

import "net/netip"

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

	// Solved means that the caller has just solved a CAPTCHA for this request: rules that demand a challenge do not refuse it. Nothing here
	// verifies this; see package captcha. Other rules, and a cost above the whole limit, refuse as usual.
	Solved bool

	// ID is an idempotency key: within a minute the same ID of the same subject is charged once and gets the same answer, even after a
	// refund. A new attempt needs a new ID. Empty, or 1 to 255 bytes. At least the last 128 answers per subject are recorded, one for
	// each window that counted.
	ID string
}

// value returns the part of r with this name.
func (r *Request) value(part string) value {
	switch part {
	case "route":
		return value{text: r.Route}
	case "method":
		return value{text: r.Method}
	case "tier":
		return value{text: r.Tier}
	case "user":
		return value{text: r.User}
	case "ip":
		return value{ip: r.IP.Unmap().WithZone("")}
	case "device":
		return value{text: r.Device}
	case "session":
		return value{text: r.Session}
	}
	return value{text: r.Attributes[part], attribute: true}
}
