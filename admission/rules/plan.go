package rules

import "iter"

// A Plan holds what a set of rules counts of one request. The zero value is empty and usable; it is not safe for concurrent use.
type Plan struct {
	Checks  []WindowCheck // in the order of the rules
	Refused bool          // by a direct rule that is not a shadow: final, the store need not be asked

	parts []string // subjects of all checks, see Subject
	path  []string // segments of the route
}

// A WindowCheck is one window that counts the request, or a direct rule.
type WindowCheck struct {
	Rule   *Effect
	Window *Counter // nil: a direct rule
	Limit  int
	Cost   int
	Waived bool // the rule demands a challenge that the request has solved: it counts while there is room and never refuses

	from, to int // range of its subject's kinds and values in the plan's parts
}

// Subject returns the kinds and the values of the parts of c's subject, in turn.
func (p *Plan) Subject(c *WindowCheck) []string { return p.parts[c.from:c.to] }

// Clear empties p and keeps its memory.
func (p *Plan) Clear() {
	clear(p.Checks)
	clear(p.parts)
	clear(p.path)
	*p = Plan{Checks: p.Checks[:0], parts: p.parts[:0], path: p.path[:0]}
}

// Capacity returns the most units that c can admit at once.
func (c *WindowCheck) Capacity() int {
	switch w := c.Window; {
	case c.Limit > 0 && w.Burst > 0:
		return w.Burst
	case c.Limit > 0 && w.Base != nil:
		return max(c.Limit, w.Base.Limit)
	}
	return c.Limit
}

// A scope selects the rules for a plan.
type scope int

const (
	matching    scope = iota // those that match the request
	allMatching              // also those after a direct rule that ends the search
	counting                 // all that could count its subject, whatever their conditions
)

// Plan fills p, which is empty, with the rules that match req. Its error describes the attribute of req that should be a cost and is not.
func (r *Set) Plan(p *Plan, req *Request) error { return r.plan(p, matching, req) }

// PlanAll is Plan with the counting rules after a direct rule that ends the search, and without direct rules.
func (r *Set) PlanAll(p *Plan, req *Request) error { return r.plan(p, allMatching, req) }

// PlanCounting is PlanAll with all rules that could count the subject of req, whatever their conditions. It never fails.
func (r *Set) PlanCounting(p *Plan, req *Request) error { return r.plan(p, counting, req) }

func (r *Set) plan(p *Plan, sc scope, req *Request) error {
	p.path = appendSegments(p.path[:0], req.Route)
	path := p.path
	for i := range r.rules {
		rule := &r.rules[i]
		if sc != counting && !rule.match.holds(req, path) {
			continue
		}
		if rule.Direct != "" {
			if sc != matching {
				continue
			}
			waived := req.Solved && rule.Direct == Challenge
			p.Checks = append(p.Checks, WindowCheck{Rule: &rule.Effect, Limit: Unlimited, Waived: waived})
			refuses := rule.Direct != Allow && !rule.Shadow && !waived
			p.Refused = p.Refused || refuses
			if rule.Direct == Allow && !rule.Shadow || r.first && refuses {
				return nil // ends the search
			}
			continue
		}
		from := len(p.parts)
		parts, ok := rule.identify(p.parts, req)
		if !ok {
			continue
		}
		p.parts = parts
		cost, err := rule.units(req)
		switch {
		case err == nil:
		case sc != counting:
			return err
		default:
			cost = 1 // the cost is irrelevant unless the request is charged
		}
		for j := range rule.windows {
			c := WindowCheck{
				Rule: &rule.Effect, Window: &rule.windows[j], Limit: rule.limitOf(j, req, path), Cost: cost, from: from, to: len(parts),
			}
			c.Waived = req.Solved && rule.OnExceed.Action == Challenge && (c.Limit == Unlimited || cost <= c.Capacity())
			p.Checks = append(p.Checks, c)
		}
	}
	return nil
}

// Explain yields the rules in their order, each with why it does not apply to req: the condition that fails, or the missing part of the
// subject; empty if it applies.
func (r *Set) Explain(req *Request) iter.Seq2[*Effect, string] {
	return func(yield func(*Effect, string) bool) {
		path := appendSegments(nil, req.Route)
		for i := range r.rules {
			if !yield(&r.rules[i].Effect, r.rules[i].mismatch(req, path)) {
				return
			}
		}
	}
}

// mismatch returns why r does not apply to req, or "" if it applies.
func (r *rule) mismatch(req *Request, path []string) string {
	if c := r.match.failing(req, path); c != nil {
		return c.text
	}
	for _, part := range r.subject {
		if _, ok := (&rule{subject: []string{part}}).identify(nil, req); !ok {
			return "the request has no " + part + ", and the rule counts by it"
		}
	}
	return ""
}
