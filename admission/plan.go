package admission

import (
	"slices"
	"sync"

	"github.com/tidegate/tidegate/bans"
)

// A plan holds the claims of one request on the rules, and what is decided without the store.
type plan struct {
	claims  []claim
	parts   []string // of all claims, see identity
	refused bool     // by a direct rule that is not a shadow: final, the store is not asked

	of          []int    // index of the claim of each tally
	generations []uint32 // of each tally's subject, read before the store was asked
	room        []Count  // buffer for the store's reply
	path        []string // segments of the route
}

// A claim is one window that counts the request, or a direct rule.
type claim struct {
	rule     *rule
	window   *window // nil: a direct rule
	limit    int
	cost     int
	from, to int  // range of its subject's kinds and values in the plan's parts
	waived   bool // the rule demands a challenge that the request has solved: it counts while there is room and never refuses
}

func (p *plan) identity(c *claim) []string { return p.parts[c.from:c.to] }

// plans pools plans, which are half of the allocations of a decision.
var plans = sync.Pool{New: func() any { return &plan{} }}

// release returns p to the pool; p must not be used any more.
func (p *plan) release() {
	clear(p.claims)
	clear(p.parts)
	clear(p.path)
	*p = plan{claims: p.claims[:0], parts: p.parts[:0], of: p.of[:0], generations: p.generations[:0], room: p.room, path: p.path[:0]}
	plans.Put(p)
}

// A scope selects the rules for a plan.
type scope int

const (
	matching    scope = iota // those that match the request
	allMatching              // also those after a direct rule that ends the search
	counting                 // all that could count its subject, whatever their conditions
)

// plan fills p, whose slices may have spare capacity.
func (r *Rules) plan(p *plan, sc scope, req *Request) error {
	p.path = appendSegments(p.path[:0], req.Route)
	path := p.path
	for i := range r.rules {
		rule := &r.rules[i]
		if sc != counting && !rule.match.holds(req, path) {
			continue
		}
		if rule.direct != "" {
			if sc != matching {
				continue
			}
			waived := req.Solved && rule.direct == ActionChallenge
			p.claims = append(p.claims, claim{rule: rule, limit: Unlimited, waived: waived})
			refuses := rule.direct != ActionAllow && !rule.shadow && !waived
			p.refused = p.refused || refuses
			if rule.direct == ActionAllow && !rule.shadow || r.first && refuses {
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
			c := claim{rule: rule, window: &rule.windows[j], limit: rule.limitOf(j, req, path), cost: cost, from: from, to: len(parts)}
			c.waived = req.Solved && rule.onExceed.action == ActionChallenge && (c.limit == Unlimited || cost <= c.capacity())
			p.claims = append(p.claims, c)
		}
	}
	return nil
}

// verdict returns the verdict of a direct rule.
func (r *rule) verdict() Verdict {
	v := Verdict{
		Rule: r.name, Algorithm: Direct, Limit: Unlimited, Remaining: Unlimited, Shadow: r.shadow, Public: r.public, Action: r.direct,
		Admitted: r.direct == ActionAllow,
	}
	switch r.direct {
	case ActionDeny:
		v.Reason = Forbidden
	case ActionChallenge:
		v.Reason = CaptchaRequired
	}
	return v
}

// verdict returns the verdict on c before the store is asked.
func (c *claim) verdict() Verdict {
	if c.window == nil {
		v := c.rule.verdict()
		if c.waived {
			v.Admitted, v.Reason, v.Action = true, "", ActionAllow
		}
		return v
	}
	v := Verdict{
		Rule: c.rule.name, Algorithm: c.window.algorithm, Window: c.window.span.length(), Limit: c.limit, Shadow: c.rule.shadow, Public: c.rule.public,
		Action: ActionAllow, Admitted: true, Remaining: c.limit,
	}
	if c.limit != Unlimited && c.cost > c.capacity() {
		v.refuse(CostAboveLimit, c.rule)
		v.Remaining = 0
	}
	return v
}

// capacity returns the most units that can be admitted at once.
func (c *claim) capacity() int {
	switch w := c.window; {
	case c.limit > 0 && w.algorithm == GCRA && w.burst > 0:
		return w.burst
	case c.limit > 0 && w.algorithm == TwoStage:
		return max(c.limit, w.base.limit)
	}
	return c.limit
}

// refuse makes v a refusal. A solved challenge does not help against a cost above the limit, so that one is denied.
func (v *Verdict) refuse(reason Reason, r *rule) {
	v.Admitted, v.Reason, v.Action = false, reason, ActionDeny
	if r.onExceed.action == ActionChallenge && reason != CostAboveLimit {
		v.Action = ActionChallenge
	}
}

// tally returns the tally for c. subject is the keyed hash of its identity.
func (c *claim) tally(k *keyring, subject string, withID bool) Tally {
	t := Tally{
		Key: k.window(subject, c.window.id), Subject: subject, Algorithm: c.window.algorithm, Limit: c.limit, Window: c.window.span,
		Cost: c.cost, Shadow: c.rule.shadow || c.waived, CountRejected: c.rule.countRejected,
	}
	if t.Algorithm == GCRA {
		t.Burst = c.capacity()
	}
	if b := c.window.base; b != nil {
		t.Base = &Base{Key: t.Key + ":b", Limit: b.limit, Window: b.span}
	}
	if e := &c.rule.onExceed; e.action == ActionBan && !t.Shadow {
		t.Strikes = &Strikes{Key: t.Key + ":s", Limit: e.after, Window: e.within}
	}
	if withID {
		t.Records = k.records(subject)
	}
	return t
}

// target returns the target of bans by c.
func (p *plan) target(c *claim) bans.Target {
	if c.rule.onExceed.action != ActionBan {
		return bans.Target{}
	}
	id := p.identity(c) // has one part, checked by the parser
	return bans.Target{Kind: bans.Kind(id[0]), Value: id[1]}
}

// read copies the store's counts for p.of into verdicts.
func (p *plan) read(verdicts []Verdict, counts []Count) {
	for i := range counts {
		c, v := &counts[i], &verdicts[p.of[i]]
		v.Admitted, v.Reason, v.Action = true, "", ActionAllow
		v.Remaining, v.RetryAfter, v.ResetAfter = c.Remaining, c.RetryAfter, c.ResetAfter
		switch claim := &p.claims[p.of[i]]; {
		case c.Reason == "":
		case claim.waived:
			v.RetryAfter = 0
		default:
			v.refuse(c.Reason, claim.rule)
		}
	}
}

// asked reports whether the decision on c needs the store.
func (c *claim) asked() bool {
	return c.limit > 0 || c.limit == 0 && c.rule.onExceed.action == ActionBan && !c.rule.shadow
}

// tallies returns the tallies to send to the store, and all verdicts as far as they are known without it.
func (p *plan) tallies(k *keyring, withID bool) (tallies []Tally, verdicts []Verdict) {
	verdicts = make([]Verdict, 0, len(p.claims))
	tallies = make([]Tally, 0, len(p.claims))
	subject, hashed := "", -1
	some := slices.ContainsFunc(p.claims, func(c claim) bool { return c.asked() })
	for i := range p.claims {
		c := &p.claims[i]
		verdicts = append(verdicts, c.verdict())
		// A limit of 0 needs no store. But if the store is asked for other tallies, it needs this one too, or they would count the
		// refused request.
		if !c.asked() && (!some || c.limit != 0 || c.rule.shadow) {
			continue
		}
		if hashed < 0 || !slices.Equal(p.identity(c), p.identity(&p.claims[hashed])) {
			subject, hashed = k.subject(p.identity(c)...), i
		}
		p.of = append(p.of, i)
		tallies = append(tallies, c.tally(k, subject, withID))
	}
	return tallies, verdicts
}
