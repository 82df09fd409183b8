package admission

import "context"

// Add counts req in every rule that matches it, whether it fits or not: for a business that is done already. Check before it, Add after
// it, and whatever comes in between is let in by both; Charge does both at one instant. What direct rules say makes no difference, nor does
// the ID. While the store is away those rules count that are local. The error is ErrUnavailable, if a rule is closed, or ErrInvalidRequest.
func (g *Gate) Add(ctx context.Context, req Request) error {
	p, rules, err := g.allMatching(&req)
	if err != nil {
		return err
	}
	tallies, verdicts := p.tallies(g.keys, false)
	if len(tallies) == 0 {
		return nil
	}
	call := Call{Mode: Add, Tallies: tallies}
	if _, err = g.ask(ctx, call); err != nil {
		_, err = g.decideAlone(ctx, call, p, verdicts, rules, err)
	}
	return err
}

// allMatching plans req, and gives it its defaults, for all rules that match it.
func (g *Gate) allMatching(req *Request) (*plan, *Rules, error) {
	if err := req.validate(); err != nil {
		return nil, nil, err
	}
	*req = req.withDefaults()
	p, rules := &plan{}, g.Rules()
	return p, rules, rules.plan(p, allMatching, req)
}
