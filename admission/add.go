package admission

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/internal/dialects"
	"github.com/tidegate/tidegate/internal/failure"
)

func init() {
	dialects.CountingOf = func(gate any) any { return dialects.Counting[Request](counting{gate.(*Gate)}) }
}

// counting is a gate with the operations that only other products' clients need.
type counting struct{ *Gate }

func (g counting) Add(ctx context.Context, req Request) error {
	p, set, err := g.allMatching(req)
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

func (g counting) Erase(ctx context.Context, req Request, units map[string]int) error {
	p, set, err := g.allMatching(req)
	if err != nil {
		return err
	}
	for name, n := range units {
		switch {
		case !set.Has(name):
			return fmt.Errorf("%w: %q", ErrUnknownRule, name)
		case n < 0:
			return failure.New(ErrInvalidRequest, "%d units of rule %s, should be 0 or more", n, name)
		}
	}
	for i := range p.Checks {
		p.Checks[i].Cost = units[p.Checks[i].Rule.Name]
	}
	p.Checks = slices.DeleteFunc(p.Checks, func(c rules.WindowCheck) bool { return c.Cost < 1 || c.Window.Algorithm != store.SlidingLog })
	tallies, _ := p.tallies(g.keys, false)
	if len(tallies) > 0 {
		_, err = g.change(ctx, store.Call{Mode: store.Erase, Tallies: tallies})
	}
	return err
}

// allMatching fills in the defaults of req and plans it for all rules that match it.
func (g counting) allMatching(req Request) (*plan, *rules.Set, error) {
	if err := validate(&req); err != nil {
		return nil, nil, err
	}
	p, set := &plan{}, g.Rules()
	return p, set, p.fill(set.PlanAll, withDefaults(req))
}
