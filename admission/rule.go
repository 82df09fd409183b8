package admission

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/netaddr"
)

// Bounds of a rule.
const (
	// MaxLimit is the highest limit.
	MaxLimit = 1_000_000_000
	// MaxLogged is the highest limit of a sliding log, which keeps one time for every unit.
	MaxLogged = 100_000
	minWindow = time.Millisecond
	maxWindow = 366 * 24 * time.Hour
)

// A rule limits what a subject may do in each of its windows. A direct rule has no windows and no subject.
type rule struct {
	line          int // in the file
	name          string
	match         match
	subject       []string // parts: user, ip, network, caller, device, session, or the name of an attribute
	joint         []string // parts whose values share one count
	windows       []window
	overrides     []override // the first that matches applies
	direct        Action     // of a direct rule; empty for all others
	cost          int        // units that a request of cost 1 takes
	costFrom      string     // attribute that multiplies cost, or empty
	countRejected bool
	onExceed      exceed
	onStoreError  fallback
	shadow        bool
	public        string // public name; empty: not disclosed to callers
}

// A window holds the limits of each tier in one span of time.
type window struct {
	id        string // see windowID
	algorithm Algorithm
	span      Window
	limit     limits
	burst     int   // GCRA only; 0 means the limit
	base      *base // TwoStage only
}

// base is the first stage of a TwoStage window.
type base struct {
	limit int
	span  Window
}

// An override sets different limits for some requests: one for each window of the rule.
type override struct {
	match  match
	limits []limits
}

// exceed is the action on a refused request. The zero value denies.
type exceed struct {
	action  Action        // ActionDeny, ActionChallenge or ActionBan; empty is ActionDeny
	after   int           // ActionBan: number of refusals that cause a ban
	within  time.Duration // ActionBan: the window of those refusals
	length  time.Duration // ActionBan: length of the first ban
	growing bool
	atMost  time.Duration // maximum length of a growing ban
}

// A fallback is what a rule does while the store is unavailable.
type fallback int

const (
	failOpen   fallback = iota // admit
	failClosed                 // make no decision
	failLocal                  // count in this process, against a share of the limit
)

// limits are limits by tier; other applies to tiers that are not listed. A limit may be Unlimited.
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

// limitOf returns the limit of the rule's i-th window for req, whose route has these segments.
func (r *rule) limitOf(i int, req *Request, path []string) int {
	for j := range r.overrides {
		if o := &r.overrides[j]; o.match.holds(req, path) {
			return o.limits[i].of(req.Tier)
		}
	}
	return r.windows[i].limit.of(req.Tier)
}

// tooMuch is a cost above every limit. Higher costs are capped at it, because they do not fit in 32 bits.
const tooMuch = MaxLimit + 1

// units returns what req costs under r.
func (r *rule) units(req *Request) (int, error) {
	units := min(r.cost*req.Cost, tooMuch)
	if r.costFrom == "" {
		return units, nil
	}
	n, err := strconv.Atoi(req.Attributes[r.costFrom])
	if err != nil || n < 1 || n > MaxCost {
		return 0, fmt.Errorf("%w: attribute %s is %.40q, should be a whole number from 1 to %d: it is the cost of rule %s",
			ErrInvalidRequest, r.costFrom, req.Attributes[r.costFrom], MaxCost, r.name)
	}
	return min(units*n, tooMuch), nil
}

// identify appends the kind and the value of each part of the subject in req to parts; ok is false if req lacks a part.
func (r *rule) identify(parts []string, req *Request) (_ []string, ok bool) {
	for _, part := range r.subject {
		kind, value := part, ""
		switch part {
		case "caller":
			kind, value = "user", req.User
			if value == "" {
				kind, value = "ip", netaddr.Address(req.IP)
			}
		case "user":
			value = req.User
		case "ip":
			value = netaddr.Address(req.IP)
		case "network":
			value = netaddr.Network(req.IP)
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
		if slices.Contains(r.joint, part) {
			value = ""
		}
		parts = append(parts, kind, value)
	}
	return parts, true
}
