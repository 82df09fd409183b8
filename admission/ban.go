package admission

import (
	"cmp"
	"fmt"
	"time"
)

// BanKind is what a ban excludes. It is a closed set; the same word is used in JSON, keys and logs.
type BanKind string

// The kinds of bans.
const (
	BanUser    BanKind = "user"
	BanIP      BanKind = "ip"      // an IPv4 address, or the /64 network of an IPv6 address
	BanNetwork BanKind = "network" // a prefix such as 203.0.113.0/24
	BanDevice  BanKind = "device"
)

// A BanTarget is the subject that a ban excludes. ParseBanTarget makes its value canonical.
type BanTarget struct {
	Kind  BanKind
	Value string
}

// A Ban excludes a target until a point in time. It is a plain value.
type Ban struct {
	BanTarget
	Reason string    // free text by the operator, or empty
	Rule   string    // the rule that banned, or empty
	Since  time.Time // on the store's clock
	Until  time.Time // not after Since: the ban has been lifted
	Times  int       // consecutive bans of this target, including this one
	Change int64     // version of the ban, higher for the later state; 0 outside a store
}

// lifted reports whether b was lifted by an operator.
func (b *Ban) lifted() bool { return !b.Until.After(b.Since) }

// MaxBans is how many targets a store remembers at once, banned now or recently. A full store accepts no further bans.
const MaxBans = 1_000_000

const (
	maxBanLength  = 10 * 366 * 24 * time.Hour
	banMemory     = 24 * time.Hour // how long a ban is remembered after its end by default
	maxBanEvents  = 10_000         // kept while the history is unavailable; then the oldest are dropped
	banEventsPage = 100
	banPage       = 500              // bans in one reply, besides the ones asked for
	aliveFor      = 15 * time.Second // after a process' last message
)

// A BanOrder is an order to ban a target.
type BanOrder struct {
	BanTarget
	Reason  string
	Rule    string
	For     time.Duration
	Growing bool          // doubled for each previous ban of the target that ended less than AtMost ago
	AtMost  time.Duration // maximum length of a growing ban; 0 means 24 h
}

// remembered returns how long after its end a ban still makes the next one longer.
func (o *BanOrder) remembered() time.Duration { return cmp.Or(o.AtMost, banMemory) }

// length returns the length of the times-th ban in a row.
func (o *BanOrder) length(times int) time.Duration {
	length, most := o.For, max(o.For, o.remembered())
	for ; o.Growing && times > 1 && length < most; times-- {
		length *= 2
	}
	return min(length, most)
}

func (o *BanOrder) validate() error {
	switch {
	case o.For < time.Millisecond || o.For > maxBanLength:
		return fmt.Errorf("%w: a ban for %v, should be for 1 ms to 10 years", ErrInvalidRequest, o.For)
	case o.AtMost < 0 || o.AtMost > maxBanLength:
		return fmt.Errorf("%w: a ban growing to at most %v, should be to at most 10 years", ErrInvalidRequest, o.AtMost)
	case !banText(o.Reason):
		return fmt.Errorf("%w: a reason should have at most %d characters of UTF-8 without control characters", ErrInvalidRequest, maxBanText)
	}
	return nil
}

// A BanEvent records that a ban was made or lifted, for a history.
type BanEvent struct {
	ID string // unique
	At time.Time
	Ban
	Lifted bool
}

// BanNews is what a process sends to the store about bans.
type BanNews struct {
	Process string // its name; the process counts as alive for 15 s
	Since   int64  // Cursor of the last BanState, 0 for all bans in force
	Put     []BanOrder
	Lift    []BanTarget
	Restore []Ban       // restored unchanged, unless the store has the target
	Ask     []BanTarget // return the state of these
	Logged  []string    // IDs of events to drop because they are recorded
	History bool        // return events
}

// BanState is the store's reply to BanNews.
type BanState struct {
	At        time.Time // the store's clock
	Origin    string    // a new value means that the store has lost its data
	Cursor    int64
	Processes int        // alive, at least 1
	Bans      []Ban      // changed after BanNews.Since, lifted ones included; also the current state of what the news put, lifted or asked for
	More      bool       // there are more changes: ask again with this Cursor
	Lifted    int        // bans that the news ended
	Events    []BanEvent // not yet recorded, oldest first, at most 100; only if asked for
}
