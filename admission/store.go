package admission

import (
	"context"
	"time"
)

// Mode is what a store does with the tallies of a request.
type Mode string

const (
	Charge Mode = "charge" // count the request if it fits everywhere
	Check  Mode = "check"  // only look
)

// A Store keeps what rules have counted. Both stores of this package pass the same conformance suite.
// Implementations are safe for concurrent use.
type Store interface {
	// Decide decides all tallies of one request together and returns one Count for each, in their order. With Charge
	// the request is counted in every tally if each tally without Shadow has room, and in none otherwise; a full Shadow tally
	// is not counted and stops nobody. Decide returns when ctx ends, whatever the server does; an error means that nothing is
	// known, except that too much may have been counted, never too little.
	Decide(ctx context.Context, mode Mode, tallies []Tally) ([]Count, error)
}

// A Tally is one counter that a request touches: one subject in one window of one rule.
type Tally struct {
	Key     string        // names the counter
	Subject string        // keyed hash of the subject; tallies with the same one are kept together
	Limit   int           // units, 1 to MaxLimit
	Window  time.Duration // whole milliseconds
	Cost    int           // units, 1 to Limit
	Shadow  bool

	stamp int64 // µs: the time under which a cluster's earlier slot counted the request; only for taking it back
}

// A Count is how a tally stands after a decision.
type Count struct {
	Reason     Reason        // empty: there was room
	Remaining  int           // units left
	RetryAfter time.Duration // until the cost fits; 0 if it does
	ResetAfter time.Duration // until everything is free

	stamp int64 // µs on the store's clock, see Tally
}

// fits reports whether the tallies let the request in.
func fits(tallies []Tally, counts []Count) bool {
	for i := range tallies {
		if counts[i].Reason != "" && !tallies[i].Shadow {
			return false
		}
	}
	return true
}
