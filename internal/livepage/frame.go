package livepage

import "time"

// A Frame is the data of one second on the page.
type Frame struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	WindowMS int64     `json:"window_ms"` // length of the window for rates; only approximately a second

	Process    Process           `json:"process"`
	RoundTrips uint64            `json:"round_trips"`       // to Redis that decisions in the window waited for
	Answers    map[string]uint64 `json:"answers"`           // of this process in the window, by "admitted" and reasons of refusals
	Latency    *Latency          `json:"latency,omitempty"` // of these answers; nil: there are none
	Rules      []Rule            `json:"rules"`
	Latest     []Answer          `json:"latest"` // in the window; a selection if there are many

	Sales      *Part[[]Sale]      `json:"sales,omitempty"`
	Rooms      *Part[[]Room]      `json:"rooms,omitempty"`
	Queue      *Part[Queue]       `json:"queue,omitempty"`
	Semaphores *Part[[]Semaphore] `json:"semaphores,omitempty"`
	Bans       *Part[Bans]        `json:"bans,omitempty"`

	// The number of elements that are not listed.
	MoreRules      int `json:"more_rules,omitempty"`
	MoreSales      int `json:"more_sales,omitempty"`
	MoreRooms      int `json:"more_rooms,omitempty"`
	MoreSemaphores int `json:"more_semaphores,omitempty"`
}

// A Part is data from Redis or the database, and may be older than its frame.
type Part[T any] struct {
	AgeMS int64  `json:"age_ms"`
	Error string `json:"error,omitempty"` // why it is not current
	Value *T     `json:"value,omitempty"` // nil: no query has succeeded
}

// Known returns the value of a part, or nil if there is no part or no value.
func (p *Part[T]) Known() *T {
	if p == nil {
		return nil
	}
	return p.Value
}

// Latency is how long answers took, from the arrival of the request. The values are up to an eighth too high.
type Latency struct {
	P50US int64 `json:"p50_us"`
	P99US int64 `json:"p99_us"`
}

// A Process describes the process that made the frame.
type Process struct {
	Version   string   `json:"version"`            // of the program
	Rules     string   `json:"rules"`              // version of the rules in force
	Processes int      `json:"processes"`          // APIs
	Workers   *int     `json:"workers,omitempty"`  // processes that commit orders; nil: unknown
	Degraded  []string `json:"degraded"`           // descriptions of degraded parts, the faults first
	Warnings  []string `json:"warnings,omitempty"` // those of Degraded that are no faults, the last ones

	Invariants *Invariants `json:"invariants,omitempty"` // nil: no sale was verified lately
	Shards     []Shard     `json:"shards,omitempty"`
}

// Invariants are the results of the latest verifications of the sales.
type Invariants struct {
	Sales      int       `json:"sales"` // verified within the last five minutes
	Violations int       `json:"violations"`
	VerifiedAt time.Time `json:"verified_at"` // the latest
}

// A Shard is a part of the embedded server's counts, which are in its memory.
type Shard struct {
	Subjects  int    `json:"subjects"`
	Reclaimed uint64 `json:"reclaimed"`  // ended counters that were dropped
	Evicted   uint64 `json:"evicted"`    // active counters that were dropped for others
	CleanedMS int64  `json:"cleaned_ms"` // since the last cleaning
	Late      bool   `json:"late"`       // CleanedMS is too long
}

// A Rule is the activity of one rule in the window, in this process.
type Rule struct {
	Name    string  `json:"name"`
	Charged uint64  `json:"charged"`
	Refused uint64  `json:"refused"`
	Shadow  uint64  `json:"shadow"`  // refusals in shadow mode
	Fullest float64 `json:"fullest"` // highest share of the limit used by any subject: 0 to 1
	Used    int     `json:"used"`    // units used by that subject
	Limit   int     `json:"limit"`   // limit of that window; 0: nothing was counted
}

// An Answer is one decision.
type Answer struct {
	At     time.Time `json:"at"`
	Who    string    `json:"who"` // the user, or the address without one
	IP     string    `json:"ip"`
	What   string    `json:"what"`
	Answer string    `json:"answer"` // admitted, or the reason of the refusal
	Rule   string    `json:"rule,omitempty"`
}

// Totals are the numbers of a sale that the database counts.
type Totals struct {
	Sale   string
	Orders Orders // without its age
	Items  map[string]ItemTotals
}

// ItemTotals are the numbers of an item that the database counts.
type ItemTotals struct {
	Cancelled, Expired int       // units
	Latest             time.Time // when the latest order was accepted that has units; zero: none has
}

// A Sale is the state of a sale.
type Sale struct {
	Sale     string    `json:"sale"`
	State    string    `json:"state"`
	Draft    bool      `json:"draft,omitempty"` // scheduled, but not opened by an operator yet
	StartsAt time.Time `json:"starts_at"`
	EndsAt   time.Time `json:"ends_at"`
	Items    []Item    `json:"items"`
	Orders   *Orders   `json:"orders,omitempty"` // nil: not counted, which is so before its start and long after its end

	MoreItems int  `json:"more_items,omitempty"`
	InAll     *Sum `json:"in_all,omitempty"` // sum of all items, if not all are listed
}

// Orders count the orders of a sale in the database.
type Orders struct {
	AgeMS     int64 `json:"age_ms"`
	Confirmed int   `json:"confirmed"` // not paid, or final without a payment
	Paid      int   `json:"paid"`
	Cancelled int   `json:"cancelled"`
	Expired   int   `json:"expired"`
	Rejected  int   `json:"rejected"`
	Refunds   int   `json:"refunds"` // captured payments that found no order to pay
}

// A Sum is the stock of several items.
type Sum struct {
	Stock int  `json:"stock"`
	Free  *int `json:"free"` // nil: unknown for at least one of them
}

// An Item is the remaining stock of an item, and its pace of sale.
type Item struct {
	Item      string  `json:"item"`
	Stock     int     `json:"stock"`
	Free      *int    `json:"free"`                     // nil: unknown, as during recovery
	PerSecond float64 `json:"per_second"`               // units taken
	OverMS    int64   `json:"over_ms"`                  // the interval of PerSecond: ten seconds at most
	SoldOutIn int64   `json:"sold_out_in_ms,omitempty"` // at that pace; 0: sold out, or no sales

	Cancelled int        `json:"cancelled,omitempty"`   // units that came back from cancelled orders
	Expired   int        `json:"expired,omitempty"`     // units that came back from expired orders
	SoldOutAt *time.Time `json:"sold_out_at,omitempty"` // when the last unit was taken; nil: some are left, or unknown
}

// A Room is the state of a waiting room.
type Room struct {
	Room     string    `json:"room"`
	Phase    string    `json:"phase"`
	Waiting  int64     `json:"waiting"`
	Served   int64     `json:"served"`   // positions that have had their turn
	Admitted int64     `json:"admitted"` // visitors who claimed in the last minute
	Outlook  string    `json:"outlook"`  // of somebody who joins now
	StartsAt time.Time `json:"starts_at"`
	Sale     string    `json:"sale,omitempty"`
	Item     string    `json:"item,omitempty"`
	Lanes    []Lane    `json:"lanes,omitempty"` // of a room that has some
}

// A Lane is the part of a room's visitors that has a share of its turns.
type Lane struct {
	Lane    string `json:"lane"`
	Share   int    `json:"share"`
	Waiting int64  `json:"waiting"`
	Served  int64  `json:"served"`
}

// A Queue is the state of orders that are accepted but not committed to the database.
type Queue struct {
	Waiting    int    `json:"waiting"`
	InProgress int    `json:"in_progress"` // tasks that workers are processing; a task has one order or more
	OldestMS   int64  `json:"oldest_ms"`
	Committed  uint64 `json:"committed"` // in the window, as far as this process was notified
	Dead       []Dead `json:"dead"`      // the first ones
	MoreDead   bool   `json:"more_dead"` // there are more than listed
}

// A Dead letter is an order that the database rejects.
type Dead struct {
	OrderID string `json:"order_id"`
	Sale    string `json:"sale"`
	Item    string `json:"item"`
	Reason  string `json:"reason"`
}

// A Semaphore is the state of a semaphore, with its first holders and waiters.
type Semaphore struct {
	Name    string   `json:"name"`
	Limit   int      `json:"limit"`
	InUse   int      `json:"in_use"`
	Waiting int      `json:"waiting"`
	Holders []Holder `json:"holders"`
}

// A Holder is a held permit.
type Holder struct {
	PermitID string    `json:"permit_id"`
	Holder   string    `json:"holder"`
	Weight   int       `json:"weight"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
}

// Bans are the bans that end last, and the total number.
type Bans struct {
	Count int   `json:"count"`
	Bans  []Ban `json:"bans"`
}

// A Ban is a ban in force.
type Ban struct {
	Kind   string    `json:"kind"`
	Value  string    `json:"value"`
	Reason string    `json:"reason"`
	Rule   string    `json:"rule"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}
