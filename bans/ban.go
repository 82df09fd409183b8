package bans

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
)

// Kind is what a ban excludes. It is a closed set; the same word is used in JSON, keys and logs.
type Kind string

// The kinds of bans.
const (
	User    Kind = "user"
	IP      Kind = "ip"      // an IPv4 address, or the /64 network of an IPv6 address
	Network Kind = "network" // a prefix such as 203.0.113.0/24
	Device  Kind = "device"
)

// A Target is the subject that a ban excludes. ParseTarget makes its value canonical.
type Target struct {
	Kind  Kind
	Value string
}

// A Ban excludes a target until a point in time. It is a plain value.
type Ban struct {
	Target
	Reason string    // free text by the operator, or empty
	Rule   string    // the rule that banned, or empty
	Since  time.Time // on the store's clock
	Until  time.Time // not after Since: the ban has been lifted
	Times  int       // consecutive bans of this target, including this one
	Change int64     // version of the ban, higher for the later state; 0 outside a store
}

// Lifted reports whether b was lifted by an operator.
func (b *Ban) Lifted() bool { return !b.Until.After(b.Since) }

// maxBans is how many targets a store remembers at once, banned now or recently. A full store accepts no further bans.
const maxBans = 1_000_000

const (
	maxLength    = 10 * 366 * 24 * time.Hour
	memoryOfBans = 24 * time.Hour // how long a ban is remembered after its end by default
	maxEvents    = 10_000         // kept while the history is unavailable; then the oldest are dropped
	eventsPage   = 100
	page         = 500              // bans in one reply, besides the ones asked for
	step         = 1_000_000        // µs by which a store's clock may be set back without an effect
	aliveFor     = 15 * time.Second // after a process' last message
)

// An Order is an order to ban a target.
type Order struct {
	Target
	Reason  string
	Rule    string
	For     time.Duration
	Growing bool          // doubled for each previous ban of the target that ended less than AtMost ago
	AtMost  time.Duration // maximum length of a growing ban; 0 means 24 h
}

// remembered returns how long after its end a ban still makes the next one longer.
func (o *Order) remembered() time.Duration { return cmp.Or(o.AtMost, memoryOfBans) }

// length returns the length of the times-th ban in a row.
func (o *Order) length(times int) time.Duration {
	length, most := o.For, max(o.For, o.remembered())
	for ; o.Growing && times > 1 && length < most; times-- {
		length *= 2
	}
	return min(length, most)
}

func (o *Order) validate() error {
	switch {
	case o.For < time.Millisecond || o.For > maxLength:
		return failure.New(ErrInvalid, "a ban for %v, should be for 1 ms to 10 years", o.For)
	case o.AtMost < 0 || o.AtMost > maxLength:
		return failure.New(ErrInvalid, "a ban growing to at most %v, should be to at most 10 years", o.AtMost)
	case !validText(o.Reason):
		return failure.New(ErrInvalid, "a reason should have at most %d characters of UTF-8 without control characters", maxText)
	}
	return nil
}

// An Event records that a ban was made or lifted, for a history.
type Event struct {
	ID string // unique
	At time.Time
	Ban
	Lifted bool
}

// News is what a process sends to the store about bans.
type News struct {
	Process string // its name; the process counts as alive for 15 s
	Since   int64  // Cursor of the last State, 0 for all bans in force
	Put     []Order
	Lift    []Target
	Restore []Ban    // restored unchanged, unless the store has the target
	Ask     []Target // return the state of these
	Logged  []string // IDs of events to drop because they are recorded
	History bool     // return events
}

// State is the store's reply to News.
type State struct {
	At        time.Time // the store's clock
	Origin    string    // a new value means that the store has lost its data
	Cursor    int64
	Processes int     // alive, at least 1
	Bans      []Ban   // changed after News.Since, lifted ones included; also the current state of what the news put, lifted or asked for
	More      bool    // there are more changes: ask again with this Cursor
	Lifted    int     // bans that the news ended
	Events    []Event // not yet recorded, oldest first, at most 100; only if asked for
}

// find returns the latest state of a target.
func (s *State) find(t Target) (Ban, bool) {
	for _, b := range slices.Backward(s.Bans) {
		if b.Target == t {
			return b, true
		}
	}
	return Ban{}, false
}

// A Store keeps bans, each list under a key of its own. Both stores of this package pass the same conformance suite. Implementations are
// safe for concurrent use.
type Store interface {
	// Exchange sends news about bans to the store and returns the changes there. It returns when ctx ends.
	Exchange(ctx context.Context, key string, news News) (State, error)
	// Listen calls changed once at the beginning, and whenever bans under the key have changed or such a notice may have been missed,
	// until ctx ends; it then returns nil.
	Listen(ctx context.Context, key string, changed func(string)) error
}
