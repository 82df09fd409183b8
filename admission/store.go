package admission

import (
	"context"
	"time"
)

// Mode is what a store does with the tallies of a request. Closed set.
type Mode string

// The modes of a Call.
const (
	Charge Mode = "charge" // count the request if it fits everywhere
	Check  Mode = "check"  // only look
	Refund Mode = "refund" // take back what a charge counted
	Reset  Mode = "reset"  // forget all that the tallies counted, their strikes as well
	Reject Mode = "reject" // count requests that were refused without asking the store
	Add    Mode = "add"    // count the request in every tally, whether it fits or not
	Erase  Mode = "erase"  // take back the newest units of a sliding log; other tallies stay
)

// A Store keeps what rules have counted, and the bans. Both stores of this package pass the same conformance suite.
// Implementations are safe for concurrent use.
type Store interface {
	// Decide decides all tallies of one request together and returns one Count for each, in their order, as it stands
	// afterwards. With Charge the request is counted in every tally if each tally without Shadow has room. Otherwise it is
	// counted in none, except in those with CountRejected; and every tally without Shadow that refused strikes. A
	// full Shadow tally is not counted and stops nobody. Decide returns when ctx ends, whatever the server does; an error means
	// that nothing is known, except that too much may have been counted, never too little.
	Decide(ctx context.Context, call Call) ([]Count, error)
	// Exchange tells the store what is new about bans here and returns what is new there. It returns when ctx ends.
	Exchange(ctx context.Context, key string, news BanNews) (BanState, error)
	// Listen calls heard with the Subject of every tally that is refunded, reset or erased by a Call with this Channel, by
	// whatever process, until ctx ends; it then returns nil. An empty subject stands for all: something may have been missed.
	Listen(ctx context.Context, channel string, heard func(subject string)) error
}

// A Call is one question to a Store.
type Call struct {
	Mode    Mode
	Tallies []Tally
	// Request is the keyed hash of the request's own id, or empty. A charge with the id of an earlier one, less than a minute
	// ago, counts nothing and returns the same counts, tally by tally. A refund with an id takes back what the charge
	// with that id counted, once.
	Request string
	// Channel is where Refund, Reset and Erase tell every listener; empty for not at all.
	Channel string
	// Room may be used for the counts that Decide returns, and for nothing once it has returned. It may be nil.
	Room []Count
}

// A Tally is one counter that a request touches: one subject in one window of one rule.
type Tally struct {
	Key       string // names the counter
	Subject   string // keyed hash of the subject; tallies with the same one are kept together
	Algorithm Algorithm
	Limit     int      // units
	Window    Window   // in which Limit holds
	Burst     int      // GCRA: units at once, 1 or more
	Base      *Base    // TwoStage: what is free before the limit begins
	Cost      int      // units, 1 or more
	Shadow    bool     // only reports
	Strikes   *Strikes // counts refusals; nil for not at all
	Records   string   // key of the answers to requests with an id; used if Call.Request is set
	Refusals  int      // Reject: the number of requests that were refused, for Strikes; Cost is what they cost together

	CountRejected bool // a refused request is counted as well

	// Stamp is that of the Count which the charge returned. Refund without Call.Request: what to take back.
	Stamp int64
}

// Strikes count how often a tally refused. The refusal that makes it Limit within Window is reported as Count.Struck, and
// counting starts anew.
type Strikes struct {
	Key    string
	Limit  int // 1 or more
	Window time.Duration
}

// A Base is the first stage of TwoStage: Limit units of a Window, as FixedWindow counts them.
type Base struct {
	Key    string
	Limit  int
	Window Window
}

// A Count is how a tally stands after a decision.
type Count struct {
	Reason     Reason        // empty: there was room
	Remaining  int           // units left
	RetryAfter time.Duration // until the cost fits; 0 if it does, or never will
	ResetAfter time.Duration // until everything is free
	Struck     bool          // see Strikes
	// Stamp says where the charge was counted, for a refund; 0 if it was not. After a refund: 0 if there was nothing
	// to take back, and not even an earlier refund had taken it. Its meaning is the store's own.
	Stamp int64
	At    time.Time // of the decision, on the store's clock, to the µs
}

// room returns a zero count for each tally.
func (c *Call) room() []Count {
	if n := len(c.Tallies); n <= cap(c.Room) {
		counts := c.Room[:n]
		clear(counts)
		return counts
	}
	return make([]Count, len(c.Tallies))
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
