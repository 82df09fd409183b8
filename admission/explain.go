package admission

import (
	"context"
	"fmt"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/bans"
)

// An Explanation is the state of a caller in all rules.
type Explanation struct {
	Version string    // of the rules
	Ban     *bans.Ban // in force; nil: no ban
	Allowed string    // the list of `bans: {allow: …}` that protects the caller from bans, or empty
	Rules   []RuleState
}

// A RuleState is the state of a caller in one rule.
type RuleState struct {
	Rule    string
	Applies bool
	Reason  string    // why the rule does not apply: the condition that fails, or the missing part of the subject
	Windows []Verdict // of a rule that could count this subject, as Check returns them
}

// Explain returns the result of every rule for req, and charges nothing. The error is ErrUnavailable or ErrInvalidRequest.
func (g *Gate) Explain(ctx context.Context, req Request) (Explanation, error) {
	if err := validate(&req); err != nil {
		return Explanation{}, err
	}
	req = withDefaults(req)
	set := g.Rules()
	e := Explanation{Version: set.Version(), Allowed: set.NeverBanned(req.User, "", req.IP)}
	if ban, _ := g.banned(&req); ban != nil {
		b := *ban
		e.Ban = &b
	}
	var p plan
	if err := p.fill(set.PlanCounting, req); err != nil {
		return Explanation{}, err
	}
	tallies, verdicts := p.tallies(g.keys, false)
	if len(tallies) > 0 {
		counts, err := g.ask(ctx, store.Call{Mode: store.Check, Tallies: tallies})
		if err != nil {
			return Explanation{}, fmt.Errorf("%w: explain: %w", ErrUnavailable, err)
		}
		p.read(verdicts, counts)
	}
	for rule, why := range set.Explain(&req) {
		s := RuleState{Rule: rule.Name, Applies: why == "", Reason: why}
		for j := range p.Checks {
			if p.Checks[j].Rule == rule {
				s.Windows = append(s.Windows, verdicts[j])
			}
		}
		e.Rules = append(e.Rules, s)
	}
	return e, nil
}
