package admission

import (
	"time"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
)

// Reason is why a request was denied; empty when it was admitted. It is a closed set; the same word is used in the scripts' replies,
// JSON, metrics and logs.
type Reason = store.Reason

// The reasons.
const (
	RateLimited    = store.RateLimited
	CostAboveLimit = store.CostAboveLimit
	// Banned: the user, address, network or device is banned; RetryAfter is the time left of the ban.
	Banned Reason = "banned"
	// Forbidden: a direct rule denies.
	Forbidden Reason = "forbidden"
	// CaptchaRequired: the strongest action is a challenge. The verdicts name the rules that demand it.
	CaptchaRequired Reason = "captcha_required"
)

// A Decision is the answer to a request. It is a plain value. The zero value denies without a reason and is only returned together with
// an error.
//
// Rule, Limit, Remaining, RetryAfter and ResetAfter describe the one window that decided: for a denial the window with the longest wait,
// for an admission the window with the least left. Shadow rules never decide. If no window limits the request, Rule is empty, and Limit
// and Remaining are Unlimited.
type Decision struct {
	Admitted bool
	Action   rules.Action
	Reason   Reason

	Rule       string
	Limit      int           // units per window
	Remaining  int           // units left in the window after this decision
	RetryAfter time.Duration // until the same request fits if no other request is admitted; 0 when admitted or when it never fits
	ResetAfter time.Duration // until the whole limit is free again

	// Rules holds every window of every matching rule, in the order of the file, up to a direct rule that ends the search. It is empty
	// for a banned caller. If the store failed, it holds only direct rules and the windows that this process counted. If the store was
	// not asked, because it refused the same a moment ago or because a direct rule denies, it holds only the windows and rules that
	// refused.
	Rules []Verdict

	// At is the time of the decision on the store's clock, so that At.Add(ResetAfter) is the same instant for all callers. It is zero if
	// the store was not asked.
	At       time.Time
	Version  string // of the rules that decided, see rules.Set.Version
	Degraded bool   // the store failed: `open` rules did not count, `local` rules counted in this process

	receipt *receipt // of a charge, for Gate.Refund
}

// A Verdict is the result of one window of one rule. Units and durations are as in Decision.
type Verdict struct {
	Rule      string
	Algorithm store.Algorithm
	Window    time.Duration // for a calendar window the usual length of its unit, a month as 30 days; 0 for a direct rule
	Limit     int
	Shadow    bool   // the rule only reports; its refusal does not deny
	Public    string // the rule's public name; empty: not disclosed to callers

	Action     rules.Action // the action that the rule demands; rules.Allow if there was room
	Admitted   bool         // this window has room
	Reason     Reason
	Remaining  int
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// conclude combines the verdicts into a decision. The request has been charged if and only if the decision admits it.
func conclude(set *rules.Set, verdicts []Verdict) Decision {
	d := Decision{
		Admitted: true, Action: rules.Allow, Limit: rules.Unlimited, Remaining: rules.Unlimited, Rules: verdicts,
		Version: set.Version(),
	}
	var decisive *Verdict
	for i := range verdicts {
		v := &verdicts[i]
		if v.Shadow || v.Admitted && v.Limit == rules.Unlimited {
			continue
		}
		switch {
		case set.FirstDecides() && decisive != nil && !decisive.Admitted && decisive.Rule != v.Rule: // the first rule that refused decides
		case decisive == nil || v.outweighs(decisive):
			decisive = v
		}
	}
	if decisive == nil {
		return d
	}
	d.Admitted, d.Action, d.Reason = decisive.Admitted, decisive.Action, decisive.Reason
	switch decisive.Action {
	case rules.Challenge:
		d.Reason = CaptchaRequired
	case rules.Ban:
		d.Reason = Banned
	}
	d.Rule, d.Limit, d.Remaining = decisive.Rule, decisive.Limit, decisive.Remaining
	d.RetryAfter, d.ResetAfter = decisive.RetryAfter, decisive.ResetAfter
	return d
}

// strength orders actions.
var strength = map[rules.Action]int{rules.Ban: 3, rules.Deny: 2, rules.Challenge: 1}

// outweighs reports whether v takes precedence over other: stronger action, then permanent over temporary refusal, then longer wait, then
// less remaining.
func (v *Verdict) outweighs(other *Verdict) bool {
	switch {
	case v.Action != other.Action:
		return strength[v.Action] > strength[other.Action]
	case v.Admitted && v.Remaining != other.Remaining:
		return v.Remaining < other.Remaining
	case v.Admitted:
		return v.ResetAfter > other.ResetAfter
	case v.forGood() != other.forGood():
		return v.forGood()
	default:
		return v.RetryAfter > other.RetryAfter
	}
}

// forGood reports whether the refusal is permanent, so that waiting does not help.
func (v *Verdict) forGood() bool { return v.Reason == CostAboveLimit || v.Reason == Forbidden }
