package dashboard

import "time"

// A Frame is what pages show, of one second.
type Frame struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	WindowMS int64     `json:"window_ms"` // what is "per second" was counted in, for it is never quite one

	Process    Process           `json:"process"`
	RoundTrips uint64            `json:"round_trips"` // to Redis that decisions of the window waited for
	Answers    map[string]uint64 `json:"answers"`     // of this process in the window: admitted, and the reasons of refusals
	Rules      []Rule            `json:"rules"`
	Latest     []Answer          `json:"latest"` // of the window, some of them if there are many

	Sales      *Part[[]Sale]      `json:"sales,omitempty"`
	Queue      *Part[Queue]       `json:"queue,omitempty"`
	Semaphores *Part[[]Semaphore] `json:"semaphores,omitempty"`
	Bans       *Part[Bans]        `json:"bans,omitempty"`

	// How many there are besides those listed.
	MoreRules      int `json:"more_rules,omitempty"`
	MoreSales      int `json:"more_sales,omitempty"`
	MoreSemaphores int `json:"more_semaphores,omitempty"`
}

// A Part is asked of Redis or the database, and may be older than its frame.
type Part[T any] struct {
	AgeMS int64  `json:"age_ms"`
	Error string `json:"error,omitempty"` // why it is old
	Value *T     `json:"value,omitempty"` // nil: nothing was ever answered
}

// Known is the value of a part, or nil where there is no part or no value.
func (p *Part[T]) Known() *T {
	if p == nil {
		return nil
	}
	return p.Value
}

// A Process is who says so.
type Process struct {
	Version   string   `json:"version"` // of the program
	Rules     string   `json:"rules"`   // version of the rules in force
	Processes int      `json:"processes"`
	Degraded  []string `json:"degraded"` // what does not work as it should
	Shards    []Shard  `json:"shards,omitempty"`
}

// A Shard is a part of the counts of the embedded server, which keeps them in its own memory.
type Shard struct {
	Subjects  int    `json:"subjects"`
	Reclaimed uint64 `json:"reclaimed"`  // had ended and were dropped
	Evicted   uint64 `json:"evicted"`    // still counted and made room for others
	CleanedMS int64  `json:"cleaned_ms"` // since the last cleaning
	Late      bool   `json:"late"`       // that is too long
}

// A Rule is what one rule did in the window, in this process.
type Rule struct {
	Name    string  `json:"name"`
	Charged uint64  `json:"charged"`
	Refused uint64  `json:"refused"`
	Shadow  uint64  `json:"shadow"`  // would have been refused
	Fullest float64 `json:"fullest"` // the most that anybody has used of the limit: 0 to 1
	Used    int     `json:"used"`    // by the same one
	Limit   int     `json:"limit"`   // of the same window; 0: nobody was counted
}

// An Answer is one decision.
type Answer struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // the user, or the address where there is none
	IP     string    `json:"ip"`
	What   string    `json:"what"`
	Answer string    `json:"answer"` // admitted, or the reason of the refusal
	Rule   string    `json:"rule,omitempty"`
}

// A Sale is how one stands.
type Sale struct {
	Sale     string    `json:"sale"`
	State    string    `json:"state"`
	Draft    bool      `json:"draft,omitempty"` // it is scheduled, and nobody has opened it yet
	StartsAt time.Time `json:"starts_at"`
	EndsAt   time.Time `json:"ends_at"`
	Items    []Item    `json:"items"`

	MoreItems int  `json:"more_items,omitempty"`
	InAll     *Sum `json:"in_all,omitempty"` // of all items, if there are more than listed
}

// A Sum is the stock of several items.
type Sum struct {
	Stock int  `json:"stock"`
	Free  *int `json:"free"` // nil: not known of each of them
}

// An Item is what is left of it, and how fast it goes.
type Item struct {
	Item      string  `json:"item"`
	Stock     int     `json:"stock"`
	Free      *int    `json:"free"`                     // nil: nobody knows, as while it recovers
	PerSecond float64 `json:"per_second"`               // units taken
	OverMS    int64   `json:"over_ms"`                  // what that was counted in: ten seconds at most
	SoldOutIn int64   `json:"sold_out_in_ms,omitempty"` // at that pace; 0: it is, or nobody takes any
}

// A Queue is what is accepted and not yet in the database.
type Queue struct {
	Waiting   int    `json:"waiting"`
	InWork    int    `json:"in_work"` // tasks that workers have taken up; a task has one order or more
	OldestMS  int64  `json:"oldest_ms"`
	Committed uint64 `json:"committed"` // in the window, as far as this process heard
	Dead      []Dead `json:"dead"`      // the first of them
	MoreDead  bool   `json:"more_dead"` // there are more
}

// A Dead letter is an order that the database refuses.
type Dead struct {
	OrderID string `json:"order_id"`
	Sale    string `json:"sale"`
	Item    string `json:"item"`
	Reason  string `json:"reason"`
}

// A Semaphore is who holds it and who waits, the first of each.
type Semaphore struct {
	Name    string   `json:"name"`
	Limit   int      `json:"limit"`
	InUse   int      `json:"in_use"`
	Waiting int      `json:"waiting"`
	Holders []Holder `json:"holders"`
}

// A Holder has a permit.
type Holder struct {
	PermitID string    `json:"permit_id"`
	Holder   string    `json:"holder"`
	Weight   int       `json:"weight"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
}

// Bans are those that end last, and how many there are.
type Bans struct {
	Count int   `json:"count"`
	Bans  []Ban `json:"bans"`
}

// A Ban is one.
type Ban struct {
	Kind   string    `json:"kind"`
	Value  string    `json:"value"`
	Reason string    `json:"reason"`
	Rule   string    `json:"rule"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}
