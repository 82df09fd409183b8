package admission

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/bans"
)

// Mode is what a store does with the tallies of a request. It is a closed set.
type Mode string

// The modes of a Call.
const (
	Charge Mode = "charge" // count the request if it fits everywhere
	Check  Mode = "check"  // count the request if it fits in every tally
	Refund Mode = "refund" // change nothing
	Reset  Mode = "reset"  // take back what a charge counted
	Reject Mode = "reject" // drop everything that the tallies counted, strikes included
	Add    Mode = "add"    // count the request in every tally, even beyond the limit
	Erase  Mode = "erase"  // remove the newest units of sliding logs; other tallies stay
)

// A Store keeps what rules have counted, and the bans. Both stores of this package pass the same conformance suite.
// Implementations are safe for concurrent use.
type Store interface {
	// Decide decides all tallies of one request together and returns the resulting Count of each, in their order. With Charge the request
	// is counted in every tally if each tally without Shadow has room. Otherwise it is counted in none, except in tallies with
	// CountRejected; and every refusing tally without Shadow adds a strike. A full Shadow tally does not count and does not refuse.
	// Decide returns when ctx ends, whatever the server does. After an error the outcome is unknown: too much may have been counted,
	// never too little.
	Decide(ctx context.Context, call Call) ([]Count, error)
	// Bans returns the store of the bans, which is kept in the same place.
	Bans() bans.Store
	// Listen calls heard with the Subject of every tally that a Call with this Channel refunds, resets or erases, in any process, until
	// ctx ends; it then returns nil. An empty subject stands for all subjects: notices may have been missed.
	Listen(ctx context.Context, channel string, heard func(subject string)) error
}

// A Call is one request to a Store.
type Call struct {
	Mode    Mode
	Tallies []Tally
	// Request is the keyed hash of the request's id, or empty. A charge with the id of an earlier one, less than a minute ago, counts
	// nothing and returns the same counts, tally by tally. A refund with an id takes back what the charge with that id counted, once.
	Request string
	// Channel is where Refund, Reset and Erase notify listeners; empty means no notice.
	Channel string
	// Room is an optional buffer for the counts that Decide returns. The store must not use it after returning.
	Room []Count
}

// A Tally is one counter that a request touches: one subject in one window of one rule.
type Tally struct {
	Key       string // identifies the counter
	Subject   string // keyed hash of the subject; tallies with the same subject share a cluster slot
	Algorithm Algorithm
	Limit     int      // units
	Window    Window   // the window of Limit
	Burst     int      // GCRA: maximum burst in units, 1 or more
	Base      *Base    // TwoStage: the free first stage
	Cost      int      // units, 1 or more
	Shadow    bool     // the tally only reports
	Strikes   *Strikes // counts refusals; nil means none
	Records   string   // key of the recorded answers to requests with an id; used if Call.Request is set
	Refusals  int      // Reject: number of refused requests, for Strikes; Cost is their total cost

	CountRejected bool // refused requests are counted too

	// Stamp is the Count.Stamp of the charge. Only for Refund without Call.Request: identifies what to take back.
	Stamp int64
}

// Strikes count how often a tally refused. The refusal that reaches Limit within Window sets Count.Struck, and counting starts from zero.
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

// A Count is the state of a tally after a decision.
type Count struct {
	Reason     Reason        // empty: there was room
	Remaining  int           // units left
	RetryAfter time.Duration // until the cost fits; 0 if it fits, or never will
	ResetAfter time.Duration // until the tally is empty
	Struck     bool          // see Strikes
	// Stamp identifies what a charge counted, for a refund; 0 if nothing was counted. After a refund it is 0 if no charge was found, not
	// even a refunded one. Its meaning is private to the store.
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

// fits reports whether the tallies admit the request.
func fits(tallies []Tally, counts []Count) bool {
	for i := range tallies {
		if counts[i].Reason != "" && !tallies[i].Shadow {
			return false
		}
	}
	return true
}
