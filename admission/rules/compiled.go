package rules

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/netaddr"
)

// maxLogged is the highest limit for which a sliding log is the default algorithm.
const maxLogged = 128

// A rule limits what a subject may do in each of its windows. A direct rule has no windows and no subject.
type rule struct {
	Effect
	line      int // in the file
	match     match
	subject   []string // parts: user, ip, network, caller, device, session, or the name of an attribute
	joint     []string // parts whose values share one count
	windows   []Counter
	overrides []override // the first that matches applies
	cost      int        // units that a request of cost 1 takes
	costFrom  string     // attribute that multiplies cost, or empty
}

// An Effect is what follows from a rule, for a gate.
type Effect struct {
	Name          string
	Direct        Action // of a direct rule; empty for all others
	CountRejected bool
	OnExceed      Exceed // complete: no field is left to its default
	OnStoreError  Fallback
	Shadow        bool
	Public        string // name for callers; empty: not disclosed
}

// A Counter is one window of a rule: what a gate needs to build a store.Tally.
type Counter struct {
	ID        string // names the rule and what gives its counts their meaning; 8 characters
	Algorithm store.Algorithm
	Window    store.Window
	Usual     time.Duration // length of Window; for a calendar window the usual length of its unit
	Burst     int           // 0 means the limit, or that the algorithm has none
	Base      *store.Base   // nil unless the algorithm has one; without Key
	limit     limits
}

// HighestLimit returns the highest limit of all tiers, ignoring Unlimited.
func (c *Counter) HighestLimit() int { return c.limit.highest() }

// An override sets different limits for some requests: one for each window of the rule.
type override struct {
	match  match
	limits []limits
}

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
const tooMuch = store.MaxLimit + 1

// units returns what req costs under r.
func (r *rule) units(req *Request) (int, error) {
	units := min(r.cost*req.Cost, tooMuch)
	if r.costFrom == "" {
		return units, nil
	}
	n, err := strconv.Atoi(req.Attributes[r.costFrom])
	if err != nil || n < 1 || n > MaxCost {
		return 0, fmt.Errorf("attribute %s is %.40q, should be a whole number from 1 to %d: it is the cost of rule %s",
			r.costFrom, req.Attributes[r.costFrom], MaxCost, r.Name)
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
