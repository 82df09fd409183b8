package store

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/bans"
	"github.com/tidegate/tidegate/internal/batch"
)

// Mode is what a store does with the tallies of a request. It is a closed set.
type Mode string

// The modes of a Call.
const (
	Charge Mode = "charge" // count the request in every tally if it fits in each
	Check  Mode = "check"  // change nothing
	Refund Mode = "refund" // take back what a charge counted
	Reset  Mode = "reset"  // drop everything that the tallies counted, strikes included
	Reject Mode = "reject" // count refusals that were decided without the store, and their strikes
	Add    Mode = "add"    // count the request in every tally, even beyond the limit
	Erase  Mode = "erase"  // remove the newest units of sliding logs; other tallies stay
)

// A Store keeps what rules have counted, and the bans. Package storetest is its specification, which every store passes.
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
	// Listen calls receive with the Subject of every tally that a Call with this Channel refunds, resets or erases, in any process, until
	// ctx ends; it then returns nil. An empty subject stands for all subjects: notifications may have been lost.
	Listen(ctx context.Context, channel string, receive func(subject string)) error
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

// Reason is why a tally has no room. It is a closed set; the same word is used in the scripts' replies, JSON, metrics and logs. Package
// admission adds the reasons of decisions that need no store.
type Reason string

// The reasons of a Count.
const (
	// RateLimited: the window has no room now; RetryAfter is the time until it has.
	RateLimited Reason = "rate_limited"
	// CostAboveLimit: the request costs more than the whole limit; with limit 0 every request does. Waiting does not help, so RetryAfter
	// is 0.
	CostAboveLimit Reason = "cost_above_limit"
)

// ErrTooMany means that too many calls are waiting for the store for another one to be answered in time.
var ErrTooMany = batch.ErrFull

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

// Fits reports whether the tallies admit the request.
func Fits(tallies []Tally, counts []Count) bool {
	for i := range tallies {
		if counts[i].Reason != "" && !tallies[i].Shadow {
			return false
		}
	}
	return true
}
