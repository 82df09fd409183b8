package rules

import (
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// A Rule limits what a subject may do in a window of time. It is a plain value that a program builds and passes to Of; a rules file
// expresses the same in YAML, and both are checked alike.
type Rule struct {
	Name    string  // 1 to 64 of a-z 0-9 -, unique in the set
	Match   Match   // the requests that the rule is about; nil: all
	Subject Subject // whom it counts, such as User, or Combine(User, Device)
	Joint   Subject // parts of Subject whose values share one count

	// The one window of the rule. For several, leave these empty and set Windows.
	Limit     int             // units within the window, or Unlimited; 0 denies all
	Tiers     map[string]int  // limits by tier, instead of Limit; "default" is for other tiers, which otherwise get the lowest
	Window    time.Duration   // whole milliseconds, 1 ms to 366 days
	Calendar  Calendar        // instead of Window: a unit of the calendar in Zone
	Algorithm store.Algorithm // empty: a sliding log for limits up to 128, a sliding counter above, a fixed window for a Calendar
	Burst     int             // store.GCRA: maximum burst; 0 means the limit
	Base      *Base           // store.TwoStage: the free first stage
	Windows   []Window

	Zone      *time.Location // of every Calendar; nil means UTC
	Overrides []Override     // other limits for some requests; the first that matches applies

	Cost          int    // units that a request of cost 1 takes; 0 means 1
	CostFrom      string // instead of Cost: the attribute of requests that holds their cost
	CountRejected bool   // refused requests are counted too

	Action       Action   // of a rule with the algorithm Direct, which counts nothing: Allow, Deny or Challenge
	OnExceed     Exceed   // the zero value denies
	OnStoreError Fallback // empty means FailOpen
	Shadow       bool     // only report
	Public       string   // name of the rule for callers; empty: not disclosed
}

// A Window is one of several windows of a Rule. Its fields are those of Rule.
type Window struct {
	Limit     int
	Tiers     map[string]int
	Window    time.Duration
	Calendar  Calendar
	Algorithm store.Algorithm
	Burst     int
	Base      *Base
}

// A Base is the free first stage of a window with the algorithm store.TwoStage.
type Base struct {
	Limit    int // units, 1 or more
	Window   time.Duration
	Calendar Calendar
}

// An Override sets other limits for requests that match: either Limit or Tiers for all windows, or Windows.
type Override struct {
	Match   Match
	Limit   int
	Tiers   map[string]int
	Windows []Window // the windows of the rule, with other limits
}

// Calendar is a unit of the calendar. It is a closed set.
type Calendar string

// The units of the calendar.
const (
	Minute Calendar = "minute"
	Hour   Calendar = "hour"
	Day    Calendar = "day"
	Month  Calendar = "month"
)

// Subject is whom a rule counts: one of the constants, the name of an attribute of requests, or a combination.
type Subject string

// The subjects that are not attributes.
const (
	User    Subject = "user"
	IP      Subject = "ip"      // the address; of an IPv6 address the /64 network
	Network Subject = "network" // the network around the address
	Caller  Subject = "caller"  // the user or, without one, the address
	Device  Subject = "device"
	Session Subject = "session"
)

// Combine returns the subject that has one count for each combination of parts.
func Combine(parts ...Subject) Subject {
	var all Subject
	for i, part := range parts {
		if i > 0 {
			all += ","
		}
		all += part
	}
	return all
}
