package admission

import "time"

// Action is what to do with a request. Closed set; the same word stands in JSON, metrics and logs.
type Action string

const (
	Allow Action = "allow"
	Deny  Action = "deny"
)

// Reason is why a request was denied; empty when it was admitted. Closed set; the same word stands in the scripts' replies,
// JSON, metrics and logs.
type Reason string

const (
	// RateLimited: the window has no room now; RetryAfter says when it will.
	RateLimited Reason = "rate_limited"
	// CostAboveLimit: the request costs more than the whole limit (any cost does where the limit is 0). Waiting does not
	// help, so RetryAfter is 0.
	CostAboveLimit Reason = "cost_above_limit"
)

// Unlimited stands for a limit or a remainder where nothing limits.
const Unlimited = -1

// A Decision says whether a request may come in. It is a plain value; the zero value denies without saying why and is never
// returned without an error.
//
// Rule, Limit, Remaining, RetryAfter and ResetAfter tell about the one window that decided: of a denial the one that takes
// longest to let the request in, of an admission the one with the least left. Shadow rules never decide. Where no window limits,
// Rule is empty, Limit and Remaining are Unlimited.
type Decision struct {
	Admitted bool
	Action   Action
	Reason   Reason

	Rule       string
	Limit      int           // units per window
	Remaining  int           // units left in the window after this decision
	RetryAfter time.Duration // until the same request fits, if nobody else is admitted; 0 when admitted or when it never will
	ResetAfter time.Duration // until the whole limit is free again

	// Rules holds every window of every matching rule, in the order of the file. It is empty when Degraded. Where
	// CostAboveLimit denied, it holds only the windows that refused: the store was not asked about the others.
	Rules []Verdict

	Version  string // of the rules that decided, see Rules.Version
	Degraded bool   // the store failed and all matching rules are open: admitted without counting
}

// A Verdict is where a request stands in one window of one rule. Units and durations are those of Decision.
type Verdict struct {
	Rule   string
	Window time.Duration
	Limit  int
	Shadow bool // the rule only reports: its refusal does not deny

	Admitted   bool // this window has room
	Reason     Reason
	Remaining  int
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// conclude makes a decision of verdicts. The request has been charged if and only if the decision admits it.
func conclude(verdicts []Verdict, version string) Decision {
	d := Decision{Admitted: true, Action: Allow, Limit: Unlimited, Remaining: Unlimited, Rules: verdicts, Version: version}
	var decisive *Verdict
	for i := range verdicts {
		v := &verdicts[i]
		if v.Shadow || v.Limit == Unlimited {
			continue
		}
		if decisive == nil || v.outweighs(decisive) {
			decisive = v
		}
	}
	if decisive == nil {
		return d
	}
	if !decisive.Admitted {
		d.Admitted, d.Action, d.Reason = false, Deny, decisive.Reason
	}
	d.Rule, d.Limit, d.Remaining = decisive.Rule, decisive.Limit, decisive.Remaining
	d.RetryAfter, d.ResetAfter = decisive.RetryAfter, decisive.ResetAfter
	return d
}

// outweighs reports whether v tells the caller more than other: a refusal before an admission, for ever before for a while, a
// long wait before a short one, less left before more.
func (v *Verdict) outweighs(other *Verdict) bool {
	switch {
	case v.Admitted != other.Admitted:
		return !v.Admitted
	case v.Admitted && v.Remaining != other.Remaining:
		return v.Remaining < other.Remaining
	case v.Admitted:
		return v.ResetAfter > other.ResetAfter
	case v.Reason != other.Reason:
		return v.Reason == CostAboveLimit
	default:
		return v.RetryAfter > other.RetryAfter
	}
}
