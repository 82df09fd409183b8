package livepage

import (
	"context"
	"slices"
	"time"
)

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

// Sources provide the data of a frame besides the Recorder. Those with a context may be slow and fail: the frame then keeps their
// previous part. Nil leaves a part out.
type Sources struct {
	Process    func() Process
	Sales      func(context.Context) ([]Sale, error)
	Totals     func(context.Context) ([]Totals, error) // it may be slow: it is called during at most a twentieth of the time
	Rooms      func(context.Context) ([]Room, error)
	Queue      func(context.Context) (Queue, error)
	Semaphores func(context.Context) ([]Semaphore, error)
	Bans       func(context.Context) (Bans, error)
	Health     func(context.Context) ([]string, error) // descriptions of degraded parts
	Rules      func() []string                         // names of the rules in force, in their order
	Committed  func() uint64                           // commits that this process was notified of, since the start
	RoundTrips func() uint64                           // round trips to Redis that decisions waited for, since the start
}

// parts returns a source for each part of a frame.
func (s *Sources) parts() []partSource {
	sales := partOf(s.Sales, func(f *Frame) **Part[[]Sale] { return &f.Sales })
	sales.unwatched = true
	return []partSource{
		sales,
		partOf(s.Rooms, func(f *Frame) **Part[[]Room] { return &f.Rooms }),
		partOf(s.Queue, func(f *Frame) **Part[Queue] { return &f.Queue }),
		partOf(s.Semaphores, func(f *Frame) **Part[[]Semaphore] { return &f.Semaphores }),
		partOf(s.Bans, func(f *Frame) **Part[Bans] { return &f.Bans }),
	}
}

// Maximum number of listed elements of each kind in a frame, so that a frame stays small enough for a page.
const (
	MostSales      = 20
	mostItems      = 10 // per sale
	mostRooms      = 20
	mostSemaphores = 30
	mostHolders    = 20 // per semaphore
	mostRules      = 50
	mostBans       = 100
	mostDead       = 20
	mostDegraded   = 10
	mostShards     = 64
)

// bound keeps the first elements of each kind, and sets how many more there are. The frame owns the remaining lists.
func (frame *Frame) bound() {
	p := &frame.Process
	p.Degraded, _ = first(p.Degraded, mostDegraded)
	p.Warnings = p.Warnings[:min(len(p.Warnings), mostDegraded)]
	p.Shards = p.Shards[:min(len(p.Shards), mostShards)]
	frame.Rules, frame.MoreRules = first(frame.Rules, mostRules)
	if sales := frame.Sales.Known(); sales != nil {
		sorted := slices.Clone(*sales)
		slices.SortStableFunc(sorted, CompareSales)
		*sales, frame.MoreSales = first(sorted, MostSales)
		for i := range *sales {
			(*sales)[i].bound()
		}
	}
	if rooms := frame.Rooms.Known(); rooms != nil {
		sorted := slices.Clone(*rooms)
		slices.SortStableFunc(sorted, compareRooms)
		*rooms, frame.MoreRooms = first(sorted, mostRooms)
	}
	if semaphores := frame.Semaphores.Known(); semaphores != nil {
		sorted := slices.Clone(*semaphores)
		slices.SortStableFunc(sorted, compareSemaphores)
		*semaphores, frame.MoreSemaphores = first(sorted, mostSemaphores)
		for i := range *semaphores {
			s := &(*semaphores)[i]
			s.Holders, _ = first(s.Holders, mostHolders)
			for j := range s.Holders {
				s.Holders[j].Holder = short(s.Holders[j].Holder, mostName)
			}
		}
	}
	if queue := frame.Queue.Known(); queue != nil {
		var more int
		queue.Dead, more = first(queue.Dead, mostDead)
		queue.MoreDead = queue.MoreDead || more > 0
		for i := range queue.Dead {
			queue.Dead[i].Reason = short(queue.Dead[i].Reason, mostReason)
		}
	}
	if bans := frame.Bans.Known(); bans != nil {
		bans.Bans, _ = first(bans.Bans, mostBans)
		for i := range bans.Bans {
			bans.Bans[i].Reason = short(bans.Bans[i].Reason, mostReason)
		}
	}
}

// Latency is how long answers took, from the arrival of the request. The values are up to an eighth too high.
type Latency struct {
	P50US int64 `json:"p50_us"`
	P99US int64 `json:"p99_us"`
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
