package rules

import (
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// Action is what to do with a request. It is a closed set; the same word is used in rules files, JSON, metrics and logs.
type Action string

// The actions, the strongest first.
const (
	Ban       Action = "ban"
	Deny      Action = "deny"
	Challenge Action = "challenge" // ask the caller to solve a CAPTCHA
	Allow     Action = "allow"
)

// Exceed is the action on a refused request, see Rule.OnExceed.
type Exceed struct {
	Action  Action        // Deny, Challenge or Ban; empty is Deny
	After   int           // Ban: number of refusals that cause a ban; 0 means 1
	Within  time.Duration // Ban: the window of those refusals; 0 means a minute
	For     time.Duration // Ban: length of the first ban; 0 means 10 minutes
	Growing bool          // Ban: each further ban is longer
	AtMost  time.Duration // Ban: maximum length of a growing ban; 0 means 24 hours, or For if that is longer
}

// Fallback is what a rule does while the store is unavailable. It is a closed set; the same word is used in rules files.
type Fallback string

// The fallbacks.
const (
	FailOpen   Fallback = "open"   // admit; the empty Fallback means the same
	FailClosed Fallback = "closed" // make no decision
	FailLocal  Fallback = "local"  // count in this process, against a share of the limit
)

// Direct is the algorithm of a rule that counts nothing: its action is the decision.
const Direct store.Algorithm = "direct"

// Unlimited is the value of a limit or a remainder where no limit applies.
const Unlimited = -1
