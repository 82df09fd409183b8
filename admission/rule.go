package admission

import (
	"slices"
	"time"
)

// Bounds of a rule.
const (
	// MaxLimit is the highest limit of a sliding log, which keeps one time for every unit.
	MaxLimit  = 100_000
	minWindow = time.Millisecond
	maxWindow = 366 * 24 * time.Hour
)

// A rule limits what a subject may do in each of its windows.
type rule struct {
	name    string
	match   match
	subject []string // parts: user, ip, caller, device, session, or the name of an attribute
	windows []window
	cost    int  // units that a request of cost 1 takes
	closed  bool // refuse to decide without the store, rather than admit
	shadow  bool
}

// A window is a length of time and how many units each tier may take in any time of that length.
type window struct {
	id     string // see windowID
	length time.Duration
	limit  limits
}

// limits are units by tier; other is for tiers that it does not name. Unlimited is a limit as well.
type limits struct {
	tiers map[string]int
	other int
}

func (l limits) of(tier string) int {
	if n, ok := l.tiers[tier]; ok {
		return n
	}
	return l.other
}

// match is when a rule applies: where all conditions hold. An empty condition holds always.
type match struct {
	routes  []route
	methods []string
	tiers   []string
}

// holds reports whether m holds for req, whose route has these segments.
func (m match) holds(req *Request, path []string) bool {
	return (len(m.tiers) == 0 || slices.Contains(m.tiers, req.Tier)) &&
		(len(m.methods) == 0 || slices.Contains(m.methods, req.Method)) &&
		(len(m.routes) == 0 || slices.ContainsFunc(m.routes, func(r route) bool { return r.matches(path) }))
}

// identify appends the kind and the value of each part of the subject in req to parts; ok is false if req lacks one.
func (r *rule) identify(parts []string, req *Request) (_ []string, ok bool) {
	for _, part := range r.subject {
		kind, value := part, ""
		switch part {
		case "caller":
			kind, value = "user", req.User
			if value == "" {
				kind, value = "ip", address(req.IP)
			}
		case "user":
			value = req.User
		case "ip":
			value = address(req.IP)
		case "device":
			value = req.Device
		case "session":
			value = req.Session
		default:
			value = req.Attributes[part]
		}
		if value == "" {
			return parts, false
		}
		parts = append(parts, kind, value)
	}
	return parts, true
}
