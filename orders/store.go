package orders

import (
	"context"
	"time"
)

// Verdict is what became of one reservation in a commit.
type Verdict struct {
	// Status of the order's row; empty when none was written because of what follows.
	Status Status
	Reason Reason
	// Repeated: the row had been there before.
	Repeated bool
	// Stale: the reservation is of an epoch below the sale's floor, or above its epoch.
	Stale bool
	// Taken are those of its units that belong to other orders, or are above the stock.
	Taken []int
}

// Holding is an order that Redis must know again after it forgot.
type Holding struct {
	ID        ID
	Item      string
	BuyerHash string
	KeyHash   *string // nil: it gave its identity up
	Quantity  int
	Status    Status // accepted for a dead letter
	Units     []int  // that it owns now
}

// Return is units of an order that ended unpaid, on their way back to Redis.
type Return struct {
	ID        ID
	Sale      string
	Item      string
	Epoch     int64 // the sale's when the order ended
	BuyerHash string
	Keyless   bool // the order was the buyer's only one of the item, and gives that up too
	Quantity  int
	Units     []int
	Status    Status // cancelled or expired, from Cancel and Expire
}

// DeadLetter is an order that was accepted and that the database refuses.
type DeadLetter struct {
	Reservation Reservation
	Reason      string // the database's own words
	At          time.Time
}

// Filter selects orders of one sale, in the order of their ids: committed ones,
// and dead letters, which are accepted.
type Filter struct {
	Sale      string
	BuyerHash string // optional
	Status    Status // optional
	After     ID     // exclusive
	Limit     int
}

// Store is the database. Its methods return ErrUnavailable, wrapped, when the
// database did not answer, ErrUnknownSale, ErrUnknownOrder or ErrConflict where
// that is the answer, and ErrPoison from Commit for rows that no repetition
// will store. It is safe for concurrent use.
type Store interface {
	SaleStore
	RecoveryStore
	CommitStore
	DeadLetterStore
	LifeStore
	ReadStore
	Ping(ctx context.Context) error
}

// SaleStore keeps what operators define.
type SaleStore interface {
	// Sales are the sales that ended less than 400 days ago.
	Sales(ctx context.Context) ([]Sale, error)
	// PutSale creates or changes a sale. It never touches an existing switch,
	// epoch, salt or number, and returns the sale as it stands, and the items that are new.
	PutSale(ctx context.Context, def Sale) (sale Sale, created bool, added []string, err error)
	SetSwitch(ctx context.Context, sale string, to Switch) error
	// IDKey never changes.
	IDKey(ctx context.Context) (IDKey, error)
}

// Lead is the right of one leader to rebuild a sale in one epoch. The token
// makes it that leader's, should the database ever give a number twice.
type Lead struct {
	Sale  string
	Epoch int64
	Token string
}

// Member is a process on the roll of an installation.
type Member struct {
	Process string
	// Pulse is another one after each heartbeat. What it says means nothing.
	Pulse string
	// Acknowledged: it has handed over what it remembered. Of HandOver only.
	Acknowledged bool
}

// Roll is who was on the roll at one moment.
type Roll struct {
	// Server is another one after a restart or a failover of the database.
	Server  string
	Members []Member
}

// Mark is an event that a process has seen committed. Events are only added:
// a database without it has lost commits. The zero value marks nothing.
type Mark struct {
	Seq   int64
	Order ID
}

// RecoveryStore is how processes agree on who rebuilds a sale, and when.
type RecoveryStore interface {
	// Lead runs fn in one process at a time for a sale, and returns at once,
	// false, while another one does. A process that lost its lock may go on:
	// what it does has to be refused where it does it.
	Lead(ctx context.Context, sale string, fn func(context.Context) error) (led bool, err error)
	// RaiseEpoch begins a recovery: it raises the sale from the epoch that the
	// leader has seen to its own. Reservations of earlier epochs are still
	// committed, those of the new one cannot be made yet. ErrConflict: the sale is
	// in another epoch by now.
	RaiseEpoch(ctx context.Context, seen int64, lead Lead) error
	// EndHandOver raises the floor to the leader's epoch, waits for the commits
	// that run below it, and strikes the silent off the roll. ErrConflict: the
	// sale is in another epoch, or in another leader's.
	EndHandOver(ctx context.Context, lead Lead, silent []Member) error
	// Beat is a heartbeat of a process. Nothing else that the store does holds it
	// up. Leave strikes the process off the roll.
	Beat(ctx context.Context, process string) (Roll, error)
	Leave(ctx context.Context, process string) error
	// Acknowledge says that a process has handed over what it remembered of the
	// epochs before, but for the late, which are kept for the leader, and remembers
	// no more of them.
	Acknowledge(ctx context.Context, sale string, epoch int64, process string, late []Reservation) error
	// HandOver is the roll, and who of it has acknowledged the leader's epoch.
	// ErrConflict: the sale is in another epoch, or in another leader's.
	HandOver(ctx context.Context, lead Lead) (Roll, error)
	// Late are the orders of a sale that acknowledgements left. Readmitted forgets some.
	Late(ctx context.Context, sale string) ([]Reservation, error)
	Readmitted(ctx context.Context, ids []ID) error
	// Newest returns the newest event, and whether the one that was seen is still there.
	Newest(ctx context.Context, seen Mark) (newest Mark, there bool, err error)
}

// CommitStore makes rows of reservations.
type CommitStore interface {
	// Commit writes reservations in one transaction and returns one verdict
	// each. An order that is already there is left as it is. Rejections are of an
	// epoch too: in a later one there may be a unit.
	Commit(ctx context.Context, batch []Reservation) ([]Verdict, error)
}

// DeadLetterStore keeps the orders that CommitStore refuses.
type DeadLetterStore interface {
	// Bury keeps a reservation that the database refuses as a dead letter.
	Bury(ctx context.Context, r Reservation, reason string) error
	// DeadLetters are those with larger ids, without the ones whose order stands
	// by now. Exhume forgets one, and notes what it gives back.
	DeadLetters(ctx context.Context, after ID, limit int) ([]DeadLetter, error)
	DeadLetter(ctx context.Context, id ID) (DeadLetter, error)
	Exhume(ctx context.Context, id ID, back []Return) error
}

// LifeStore changes committed orders, and keeps a record of it.
type LifeStore interface {
	// Capture records a payment, once for each reference, and pays the order if
	// it waits for that. ErrConflict: the reference is another order's.
	Capture(ctx context.Context, id ID, reference string) (Payment, error)
	// Pay is Capture for many orders, by their references. It returns the orders
	// that it paid. It leaves to Capture whatever is not simple: orders that do not
	// wait for a payment, that another transaction holds, or whose reference is known.
	Pay(ctx context.Context, references map[ID]string) (paid []ID, err error)
	// Cancel ends those of the orders that wait for their payment, but for those
	// that another transaction holds, and returns what it ended.
	Cancel(ctx context.Context, ids []ID) ([]Return, error)
	// Expire ends at most limit orders whose time to pay is over.
	Expire(ctx context.Context, limit int) ([]Return, error)
	// NextExpiry is how long the next order still has to pay, at most most.
	NextExpiry(ctx context.Context, most time.Duration) (time.Duration, error)
	// Returns are at most limit of the units that Redis may not have back yet, of
	// one sale or of all: any of them, so that a sale that stays closed does not
	// keep back the others'. Returned forgets some.
	Returns(ctx context.Context, sale string, limit int) ([]Return, error)
	Returned(ctx context.Context, ids []ID) error
	// Events are changes with larger sequence numbers, none of which can still
	// be followed by one with a smaller number.
	Events(ctx context.Context, after int64, limit int) ([]Event, error)
}

// ReadStore answers for orders.
type ReadStore interface {
	// Committed are those of the given orders that the database knows. A dead
	// letter is an accepted order.
	Committed(ctx context.Context, ids []ID) (map[ID]Order, error)
	// Statuses are those of the given orders that the database knows.
	Statuses(ctx context.Context, ids []ID) (map[ID]Status, error)
	// Orders are those of f, also dead letters without an order.
	Orders(ctx context.Context, f Filter) ([]Order, error)
	// Holdings calls fn for every order of a sale whose units, quota or key are taken.
	Holdings(ctx context.Context, sale string, fn func(Holding) error) error
	// Owners are the orders that own an item's units.
	Owners(ctx context.Context, sale, item string) (map[int]ID, error)
	// Inspect looks for what contradicts itself within the database. An order
	// whose time to pay was over longer ago than late should have expired.
	Inspect(ctx context.Context, sale string, late time.Duration) (Inspection, error)
}
