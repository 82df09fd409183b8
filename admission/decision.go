package admission

import "time"

// Action is what to do with a request. Closed set; the same word stands in JSON, metrics and logs.
type Action string

// The actions, the strongest first.
const (
	ActionBan       Action = "ban"
	ActionDeny      Action = "deny"
	ActionChallenge Action = "challenge" // let the caller prove to be human, by a CAPTCHA
	ActionAllow     Action = "allow"
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
	// Banned: the user, address, network or device is banned; RetryAfter is the rest of the ban.
	Banned Reason = "banned"
	// Forbidden: a direct rule denies.
	Forbidden Reason = "forbidden"
	// CaptchaRequired: the strongest action is a challenge. Verdicts say what called for it.
	CaptchaRequired Reason = "captcha_required"
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

	// Rules holds every window of every matching rule, in the order of the file, up to a direct rule that ends the search. It is empty
	// for a banned caller. Where the store failed, it holds what is known without: direct rules and what this process counts. Where the
	// store was not asked, because it has just refused the same, or because a direct rule denies, it holds only the windows
	// and rules that refused.
	Rules []Verdict

	// At is the time of the decision on the store's clock, so that At.Add(ResetAfter) is the same instant for all callers. Zero
	// if the store was not asked.
	At       time.Time
	Version  string // of the rules that decided, see Rules.Version
	Degraded bool   // the store failed: rules that are open did not count, those that are local counted in this process

	receipt *receipt // of a charge, for Gate.Refund
}

// A Verdict is where a request stands in one window of one rule. Units and durations are those of Decision.
type Verdict struct {
	Rule      string
	Algorithm Algorithm
	Window    time.Duration // of a calendar the usual length of its unit, a month as 30 days; 0 for a direct rule
	Limit     int
	Shadow    bool   // the rule only reports: its refusal does not deny
	Public    string // the rule's name for callers; empty: they are not told of it

	Action     Action // what the rule asks for: ActionAllow where there was room
	Admitted   bool   // this window has room
	Reason     Reason
	Remaining  int
	RetryAfter time.Duration
	ResetAfter time.Duration
}

// conclude makes a decision of what the windows and direct rules say. The request has been charged if and only if the decision admits it.
func (r *Rules) conclude(verdicts []Verdict) Decision {
	d := Decision{Admitted: true, Action: ActionAllow, Limit: Unlimited, Remaining: Unlimited, Rules: verdicts, Version: r.version}
	var decisive *Verdict
	for i := range verdicts {
		v := &verdicts[i]
		if v.Shadow || v.Admitted && v.Limit == Unlimited {
			continue
		}
		switch {
		case r.first && decisive != nil && !decisive.Admitted && decisive.Rule != v.Rule: // that was the first
		case decisive == nil || v.outweighs(decisive):
			decisive = v
		}
	}
	if decisive == nil {
		return d
	}
	d.Admitted, d.Action, d.Reason = decisive.Admitted, decisive.Action, decisive.Reason
	switch decisive.Action {
	case ActionChallenge:
		d.Reason = CaptchaRequired
	case ActionBan:
		d.Reason = Banned
	}
	d.Rule, d.Limit, d.Remaining = decisive.Rule, decisive.Limit, decisive.Remaining
	d.RetryAfter, d.ResetAfter = decisive.RetryAfter, decisive.ResetAfter
	return d
}

// strength orders actions.
var strength = map[Action]int{ActionBan: 3, ActionDeny: 2, ActionChallenge: 1}

// outweighs reports whether v tells the caller more than other: a strong action before a weak one, for ever before for a while, a
// long wait before a short one, less left before more.
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

// forGood reports whether waiting does not help.
func (v *Verdict) forGood() bool { return v.Reason == CostAboveLimit || v.Reason == Forbidden }
