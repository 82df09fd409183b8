package admission

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// A refusedTally is a refusal that has not been counted yet.
type refusedTally struct {
	denial *denial
	cost   int
}

// refusingUncounted returns tallies with the counting of refusals switched off.
func refusingUncounted(tallies []store.Tally) []store.Tally {
	if !slices.ContainsFunc(tallies, countsRefusals) {
		return tallies
	}
	tallies = slices.Clone(tallies)
	for i := range tallies {
		tallies[i].Strikes, tallies[i].CountRejected = nil, false
	}
	return tallies
}

func countsRefusals(t store.Tally) bool { return t.Strikes != nil || t.CountRejected }

// refusedTallies returns the refusals of the store's reply that are still to be counted, for tallies sent with refusingUncounted.
func (p *plan) refusedTallies(tallies []store.Tally, counts []store.Count) (refused []refusedTally) {
	for i, t := range tallies {
		if counts[i].Reason == "" || t.Shadow {
			t.Strikes = nil
		}
		if countsRefusals(t) {
			c := &p.Checks[p.of[i]]
			refused = append(refused, refusedTally{&denial{rule: c.Rule, target: p.target(c), tally: t, counts: true}, t.Cost})
		}
	}
	return refused
}

// noteGenerations records the generations of the tallies' subjects, before the store is asked.
func (g *Gate) noteGenerations(p *plan, tallies []store.Tally) {
	if !g.denied.remembers() {
		return
	}
	for i := range tallies {
		p.generations = append(p.generations, g.denied.generation(tallies[i].Subject).Load())
	}
}

// refuseAgain refuses what the store has just refused, and adds the refusals that need no store. RetryAfter is that of the remembered
// cost. It may be too short for a higher cost; the store then refuses again.
func (g *Gate) refuseAgain(mode store.Mode, p *plan, set *rules.Set, later *[]refusedTally) (Decision, bool) {
	if !g.denied.remembers() || len(p.Checks) == 0 || p.Refused {
		return Decision{}, false
	}
	now, found := g.now(), false
	var verdicts []Verdict
	var at time.Time
	for i := range p.Checks {
		c := &p.Checks[i]
		var d *denial
		could := needsStore(c) && !c.Rule.Shadow && !c.Waived
		if could {
			d = g.denied.find(denyKey{c.Window, c.Limit, g.denied.hash(p.Subject(c))}, c.Cost, now)
		}
		if d == nil {
			if set.FirstDecides() && could {
				break // this rule may refuse by now, and would be the first
			}
			if v := verdictOf(c); !v.Admitted {
				verdicts = append(verdicts, v)
			}
			continue
		}
		switch {
		case mode != store.Charge:
		case later != nil:
			*later = append(*later, refusedTally{d, c.Cost})
		default:
			g.denied.refuse(d, c.Cost)
		}
		v := d.verdict
		if c.Cost > c.Capacity() { // does not depend on the remembered denial
			v = verdictOf(c)
		}
		passed := time.Duration(now - d.at)
		v.RetryAfter, v.ResetAfter = max(0, v.RetryAfter-passed), max(0, v.ResetAfter-passed)
		at, found = d.storeTime.Add(passed), true
		verdicts = append(verdicts, v)
	}
	if !found {
		g.denied.misses.add()
		return Decision{}, false
	}
	g.denied.hits.add()
	d := conclude(set, verdicts)
	d.At = at
	return d, true
}

// remember keeps the store's refusals for repeated requests.
func (g *Gate) remember(p *plan, tallies []store.Tally, counts []store.Count, verdicts []Verdict) {
	if !g.denied.remembers() {
		return
	}
	now := g.now()
	for i := range counts {
		c, t, v := &p.Checks[p.of[i]], &tallies[i], &verdicts[p.of[i]]
		if counts[i].Reason == "" || t.Shadow || v.Action == rules.Ban { // bans are held in bans.List, and can be lifted
			continue
		}
		length := denyFor
		if counts[i].Reason == RateLimited {
			length = min(length, counts[i].RetryAfter)
		}
		d := &denial{
			cost: t.Cost, at: now, until: now + int64(length), verdict: *v, storeTime: counts[i].At,
			generation: p.generations[i], rule: c.Rule, target: p.target(c), tally: *t, counts: t.CountRejected || t.Strikes != nil,
		}
		g.denied.add(denyKey{c.Window, c.Limit, g.denied.hash(p.Subject(c))}, d)
	}
}
