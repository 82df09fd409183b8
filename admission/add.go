package admission

import "context"

// Add counts req in every matching rule even where it does not fit. Use it for a business operation that has already taken place. With a
// Check before the operation and an Add after it, concurrent requests can pass the Check in between; Charge checks and counts atomically.
// Direct rules and the ID are ignored. While the store is unavailable only rules with `on_store_error: local` count. The error is
// ErrUnavailable if a matching rule is `closed`, or ErrInvalidRequest.
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

// allMatching fills in the defaults of req and plans it for all rules that match it.
func (g *Gate) allMatching(req *Request) (*plan, *Rules, error) {
	if err := req.validate(); err != nil {
		return nil, nil, err
	}
	*req = req.withDefaults()
	p, rules := &plan{}, g.Rules()
	return p, rules, rules.plan(p, allMatching, req)
}
