package waitingroom

import "time"

// Reason is why a room refuses a visitor. The same word is the reason of the HTTP API's problem.
type Reason string

// The reasons.
const (
	ReasonNotStarted  Reason = "not_started"   // the room takes no visitors yet
	ReasonEnded       Reason = "ended"         // the room takes no more visitors
	ReasonSoldOut     Reason = "sold_out"      // the room has ended because everything is sold
	ReasonForbidden   Reason = "forbidden"     // the lane takes visitors of another tier
	ReasonNotYourTurn Reason = "not_your_turn" // claim when the place's state is turn
	// it is the visitor's turn, but the rate or the capacity is used up. The turn is kept; claim again in a second
	ReasonAtCapacity  Reason = "at_capacity"
	ReasonTurnLapsed  Reason = "turn_lapsed"  // the time to claim, or to use the pass, is over
	ReasonRateLimited Reason = "rate_limited" // the visitor has given up one place after another, and may join again after RetryAfter
)

// A Refusal is the answer to a valid request that a room does not grant now.
type Refusal struct {
	Reason     Reason
	Detail     string        // for the visitor; may be empty
	RetryAfter time.Duration // when repeating makes sense; 0: unknown
}
