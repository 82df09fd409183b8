package admission

import "time"

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
}

// A BanOrder asks for a ban.
type BanOrder struct {
	BanTarget
	Reason  string
	Rule    string
	For     time.Duration
	Growing bool          // doubled for every ban of the target that ended less than AtMost ago
	AtMost  time.Duration // the longest that a growing ban becomes
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
	Since   int64  // Cursor of the last BanState, 0 for all bans
	Put     []BanOrder
	Lift    []BanTarget
	Restore []Ban    // put back as they are, unless the store knows the target
	Logged  []string // IDs of events that need not be reported again
}

// BanState is what the store tells a process about bans.
type BanState struct {
	At        time.Time // the store's clock
	Origin    string    // another one than before: the store had forgotten everything
	Cursor    int64
	Processes int        // alive, at least 1
	Bans      []Ban      // changed since, also by the news; those lifted as well
	Events    []BanEvent // not yet logged, oldest first, at most 100
}
