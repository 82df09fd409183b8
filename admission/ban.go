package admission

import (
	"cmp"
	"fmt"
	"time"
)

// BanKind is what a ban excludes. Closed set; the same word stands in JSON, keys and logs.
type BanKind string

// The kinds of bans.
const (
	BanUser    BanKind = "user"
	BanIP      BanKind = "ip"      // an IPv4 address, or the /64 network of an IPv6 address
	BanNetwork BanKind = "network" // a prefix such as 203.0.113.0/24
	BanDevice  BanKind = "device"
)

// A BanTarget is whom a ban excludes. ParseBanTarget makes its value canonical.
type BanTarget struct {
	Kind  BanKind
	Value string
}

// A Ban keeps a target out until a time. It is a plain value.
type Ban struct {
	BanTarget
	Reason string    // an operator's own words, or empty
	Rule   string    // the rule that banned, or empty
	Since  time.Time // on the store's clock
	Until  time.Time // no later than Since: the ban has been lifted
	Times  int       // bans of this target in a row, with this one
	Change int64     // of two states of one ban the later has the higher one; 0 outside a store
}

// lifted reports whether b was ended by hand.
func (b *Ban) lifted() bool { return !b.Until.After(b.Since) }

// MaxBans is how many targets a store remembers at once, banned now or lately. A store that is full bans nobody else.
const MaxBans = 1_000_000

const (
	maxBanLength  = 10 * 366 * 24 * time.Hour
	banMemory     = 24 * time.Hour // how long a ban is remembered after its end where its order does not say
	maxBanEvents  = 10_000         // kept for a history that is away; then the oldest go
	banEventsPage = 100
	banPage       = 500              // bans in one answer, besides those that were asked for
	aliveFor      = 15 * time.Second // after a process was last heard of
)

// A BanOrder asks for a ban.
type BanOrder struct {
	BanTarget
	Reason  string
	Rule    string
	For     time.Duration
	Growing bool          // doubled for every ban of the target that ended less than AtMost ago
	AtMost  time.Duration // the longest that a growing ban becomes; 0 means 24 h
}

// remembered is how long after its end a ban makes the next one longer.
func (o *BanOrder) remembered() time.Duration { return cmp.Or(o.AtMost, banMemory) }

// length is that of the times-th ban in a row.
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

// A BanEvent is a ban as it was made or lifted, for a history.
type BanEvent struct {
	ID string // unique
	At time.Time
	Ban
	Lifted bool
}

// BanNews is what a process tells the store about bans.
type BanNews struct {
	Process string // its name: it counts as alive for 15 s
	Since   int64  // Cursor of the last BanState, 0 for all bans in force
	Put     []BanOrder
	Lift    []BanTarget
	Restore []Ban       // put back as they are, unless the store knows the target
	Ask     []BanTarget // how do these stand
	Logged  []string    // IDs of events that need not be reported again
	History bool        // tell events
}

// BanState is what the store tells a process about bans.
type BanState struct {
	At        time.Time // the store's clock
	Origin    string    // another one than before: the store had forgotten everything
	Cursor    int64
	Processes int        // alive, at least 1
	Bans      []Ban      // changed since, also by the news; those lifted as well. And whatever the news put, lifted or asked for, as it is now
	More      bool       // there are more changes: ask again with this Cursor
	Lifted    int        // bans that the news ended
	Events    []BanEvent // not yet logged, oldest first, at most 100; none unless asked for
}
