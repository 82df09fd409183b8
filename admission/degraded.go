package admission

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// decideDegraded decides without the store, which failed with cause.
func (g *Gate) decideDegraded(
	ctx context.Context, call store.Call, p *plan, verdicts []Verdict, set *rules.Set, cause error,
) (Decision, error) {
	// A cost above the limit and a direct rule need no store, unless an earlier rule could be the first to refuse. A refusal by them is
	// not counted in any rule. In mode Add the request has already happened, so it is counted.
	first := slices.IndexFunc(verdicts, func(v Verdict) bool { return !v.Admitted && !v.Shadow })
	refused := first >= 0 && call.Mode != store.Add
	if refused && (!set.FirstDecides() || first <= p.of[0]) {
		return conclude(set, refusals(verdicts)), nil
	}
	local, of := store.Call{Mode: call.Mode, Request: call.Request}, p.of
	if refused {
		local.Mode = store.Check
	}
	p.of = nil
	unknown := make([]bool, len(verdicts)) // only the store could decide these
	for i, at := range of {
		unknown[at] = !refused || verdicts[at].Admitted
		r := p.Checks[at].Rule
		switch {
		case call.Tallies[i].Shadow:
		case r.OnStoreError == rules.FailClosed && !refused:
			return Decision{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, call.Mode, cause)
		case r.OnStoreError == rules.FailLocal:
			local.Tallies = append(local.Tallies, g.shareOf(call.Tallies[i]))
			p.of = append(p.of, at)
			unknown[at] = false
		}
	}
	if len(local.Tallies) > 0 {
		counts, err := g.local.Decide(ctx, local)
		if err != nil {
			return Decision{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, call.Mode, err)
		}
		p.read(verdicts, counts)
		for i, at := range p.of {
			verdicts[at].Limit = local.Tallies[i].Limit
		}
	}
	known := make([]Verdict, 0, len(verdicts))
	for i := range verdicts {
		if !unknown[i] {
			known = append(known, verdicts[i])
		}
	}
	d := conclude(set, known)
	d.Degraded = true
	return d, nil
}

// refusals returns the verdicts that refuse.
func refusals(verdicts []Verdict) []Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Admitted })
}

// shareOf scales t to this process' share of the limit. It drops the strikes: a share of a limit never bans.
func (g *Gate) shareOf(t store.Tally) store.Tally {
	t.Limit, t.Burst, t.Strikes = g.share(t.Limit), g.share(t.Burst), nil
	if t.Base != nil {
		base := *t.Base
		base.Limit = g.share(base.Limit)
		t.Base = &base
	}
	return t
}

// share is this process' share of a limit.
func (g *Gate) share(limit int) int {
	if limit <= 0 {
		return limit
	}
	share := g.opts.LocalShare
	if share == 0 {
		share = 1 / float64(max(1, g.bans.Processes()))
	}
	return max(1, int(float64(limit)*share))
}
