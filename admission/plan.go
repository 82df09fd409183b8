package admission

import (
	"slices"
	"sync"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/failure"
)

// A plan is a rules.Plan on its way through the store.
type plan struct {
	rules.Plan

	req         Request       // to be decided
	of          []int         // index of the check of each tally
	generations []uint32      // of each tally's subject, read before the store was asked
	room        []store.Count // buffer for the store's reply
}

// plans pools plans, which are half of the allocations of a decision.
var plans = sync.Pool{New: func() any { return &plan{} }}

// release returns p to the pool; p must not be used any more.
func (p *plan) release() {
	p.Clear()
	p.req = Request{}
	p.of, p.generations = p.of[:0], p.generations[:0]
	plans.Put(p)
}

// fill fills p with req, by a method of the rules.
func (p *plan) fill(by func(*rules.Plan, *Request) error, req Request) error {
	p.req = req
	if err := by(&p.Plan, &p.req); err != nil {
		return failure.New(ErrInvalidRequest, "%v", err)
	}
	return nil
}

// directVerdict returns the verdict of a direct rule.
func directVerdict(r *rules.Effect) Verdict {
	v := Verdict{
		Rule: r.Name, Algorithm: rules.Direct, Limit: rules.Unlimited, Remaining: rules.Unlimited, Shadow: r.Shadow, Public: r.Public,
		Action:   r.Direct,
		Admitted: r.Direct == rules.Allow,
	}
	switch r.Direct {
	case rules.Deny:
		v.Reason = Forbidden
	case rules.Challenge:
		v.Reason = CaptchaRequired
	}
	return v
}

// verdictOf returns the verdict on c before the store is asked.
func verdictOf(c *rules.WindowCheck) Verdict {
	if c.Window == nil {
		v := directVerdict(c.Rule)
		if c.Waived {
			v.Admitted, v.Reason, v.Action = true, "", rules.Allow
		}
		return v
	}
	v := Verdict{
		Rule: c.Rule.Name, Algorithm: c.Window.Algorithm, Window: c.Window.Usual, Limit: c.Limit, Shadow: c.Rule.Shadow, Public: c.Rule.Public,
		Action: rules.Allow, Admitted: true, Remaining: c.Limit,
	}
	if c.Limit != rules.Unlimited && c.Cost > c.Capacity() {
		v.refuse(CostAboveLimit, c.Rule)
		v.Remaining = 0
	}
	return v
}

// refuse makes v a refusal. A solved challenge does not help against a cost above the limit, so that one is denied.
func (v *Verdict) refuse(reason Reason, r *rules.Effect) {
	v.Admitted, v.Reason, v.Action = false, reason, rules.Deny
	if r.OnExceed.Action == rules.Challenge && reason != CostAboveLimit {
		v.Action = rules.Challenge
	}
}

// tallyOf returns the tally for c. subject is the keyed hash of its identity.
func tallyOf(c *rules.WindowCheck, k *keyring, subject string, withID bool) store.Tally {
	t := store.Tally{
		Key: k.window(subject, c.Window.ID), Subject: subject, Algorithm: c.Window.Algorithm, Limit: c.Limit, Window: c.Window.Window,
		Burst: c.Capacity(), Cost: c.Cost, Shadow: c.Rule.Shadow || c.Waived, CountRejected: c.Rule.CountRejected,
	}
	if b := c.Window.Base; b != nil {
		t.Base = &store.Base{Key: t.Key + ":b", Limit: b.Limit, Window: b.Window}
	}
	if e := &c.Rule.OnExceed; e.Action == rules.Ban && !t.Shadow {
		t.Strikes = &store.Strikes{Key: t.Key + ":s", Limit: e.After, Window: e.Within}
	}
	if withID {
		t.Records = k.records(subject)
	}
	return t
}

// target returns the target of bans by c.
func (p *plan) target(c *rules.WindowCheck) bans.Target {
	if c.Rule.OnExceed.Action != rules.Ban {
		return bans.Target{}
	}
	id := p.Subject(c) // has one part, checked by the parser
	return bans.Target{Kind: bans.Kind(id[0]), Value: id[1]}
}

// read copies the store's counts for p.of into verdicts.
func (p *plan) read(verdicts []Verdict, counts []store.Count) {
	for i := range counts {
		c, v := &counts[i], &verdicts[p.of[i]]
		v.Admitted, v.Reason, v.Action = true, "", rules.Allow
		v.Remaining, v.RetryAfter, v.ResetAfter = c.Remaining, c.RetryAfter, c.ResetAfter
		switch check := &p.Checks[p.of[i]]; {
		case c.Reason == "":
		case check.Waived:
			v.RetryAfter = 0
		default:
			v.refuse(c.Reason, check.Rule)
		}
	}
}

// needsStore reports whether the decision on c needs the store.
func needsStore(c *rules.WindowCheck) bool {
	return c.Limit > 0 || c.Limit == 0 && c.Rule.OnExceed.Action == rules.Ban && !c.Rule.Shadow
}

// tallies returns the tallies to send to the store, and all verdicts as far as they are known without it.
func (p *plan) tallies(k *keyring, withID bool) (tallies []store.Tally, verdicts []Verdict) {
	verdicts = make([]Verdict, 0, len(p.Checks))
	tallies = make([]store.Tally, 0, len(p.Checks))
	subject, hashed := "", -1
	some := slices.ContainsFunc(p.Checks, func(c rules.WindowCheck) bool { return needsStore(&c) })
	for i := range p.Checks {
		c := &p.Checks[i]
		verdicts = append(verdicts, verdictOf(c))
		// A limit of 0 needs no store. But if the store is asked for other tallies, it needs this one too, or they would count the
		// refused request.
		if !needsStore(c) && (!some || c.Limit != 0 || c.Rule.Shadow) {
			continue
		}
		if hashed < 0 || !slices.Equal(p.Subject(c), p.Subject(&p.Checks[hashed])) {
			subject, hashed = k.subject(p.Subject(c)...), i
		}
		p.of = append(p.of, i)
		tallies = append(tallies, tallyOf(c, k, subject, withID))
	}
	return tallies, verdicts
}
