package admission

import (
	"context"
	"fmt"

	"github.com/tidegate/tidegate/bans"
)

// An Explanation is the state of a caller in all rules.
type Explanation struct {
	Version string    // of the rules
	Ban     *bans.Ban // in force; nil: no ban
	Allowed string    // the list of `bans: {allow: …}` that protects the caller from bans, or empty
	Rules   []Standing
}

// A Standing is the state of a caller in one rule.
type Standing struct {
	Rule    string
	Applies bool
	Why     string    // why the rule does not apply: the condition that fails, or the missing part of the subject
	Windows []Verdict // of a rule that could count this subject, as Check returns them
}

// Explain returns the result of every rule for req, and charges nothing. The error is ErrUnavailable or ErrInvalidRequest.
func (g *Gate) Explain(ctx context.Context, req Request) (Explanation, error) {
	if err := req.validate(); err != nil {
		return Explanation{}, err
	}
	req = req.withDefaults()
	rules := g.Rules()
	e := Explanation{Version: rules.version, Allowed: rules.NeverBanned(req.User, "", req.IP)}
	if ban, _ := g.banned(&req); ban != nil {
		b := *ban
		e.Ban = &b
	}
	var p plan
	if err := rules.plan(&p, counting, &req); err != nil {
		return Explanation{}, err
	}
	tallies, verdicts := p.tallies(g.keys, false)
	if len(tallies) > 0 {
		counts, err := g.ask(ctx, Call{Mode: Check, Tallies: tallies})
		if err != nil {
			return Explanation{}, fmt.Errorf("%w: explain: %w", ErrUnavailable, err)
		}
		p.read(verdicts, counts)
	}
	path := appendSegments(nil, req.Route)
	for i := range rules.rules {
		r := &rules.rules[i]
		s := Standing{Rule: r.name, Why: r.mismatch(&req, path)}
		s.Applies = s.Why == ""
		for j := range p.claims {
			if p.claims[j].rule == r {
				s.Windows = append(s.Windows, verdicts[j])
			}
		}
		e.Rules = append(e.Rules, s)
	}
	return e, nil
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
