package admission

import (
	"context"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// Add counts req in every matching rule even where it does not fit. Use it for a business operation that has already taken place. With a
// Check before the operation and an Add after it, concurrent requests can pass the Check in between; Charge checks and counts atomically.
// Direct rules and the ID are ignored. While the store is unavailable only rules with `on_store_error: local` count. The error is
// ErrUnavailable if a matching rule is `closed`, or ErrInvalidRequest.
func (g *Gate) Add(ctx context.Context, req Request) error {
	p, set, err := g.allMatching(&req)
	if err != nil {
		return err
	}
	tallies, verdicts := p.tallies(g.keys, false)
	if len(tallies) == 0 {
		return nil
	}
	call := store.Call{Mode: store.Add, Tallies: tallies}
	if _, err = g.ask(ctx, call); err != nil {
		_, err = g.decideDegraded(ctx, call, p, verdicts, set, err)
	}
	return err
}

// allMatching fills in the defaults of req and plans it for all rules that match it.
func (g *Gate) allMatching(req *Request) (*plan, *rules.Set, error) {
	if err := validate(req); err != nil {
		return nil, nil, err
	}
	*req = withDefaults(*req)
	p, set := &plan{}, g.Rules()
	return p, set, p.fill(set, rules.AllMatching, req)
}
