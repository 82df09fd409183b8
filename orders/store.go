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
}

// RecoveryStore is how processes agree on who rebuilds a sale, and when.
type RecoveryStore interface {
	// Lead runs fn in at most one process at a time for a sale, and returns at
	// once, false, while another one does.
	Lead(ctx context.Context, sale string, fn func(context.Context) error) (led bool, err error)
	// RaiseEpoch begins a recovery: reservations of earlier epochs are still
	// committed, those of the new one cannot be made yet.
	RaiseEpoch(ctx context.Context, sale string) error
	// EndHandOver raises the floor to the epoch, and waits for the commits that
	// run below it. ErrConflict: another leader raised the epoch meanwhile.
	EndHandOver(ctx context.Context, sale string, epoch int64) error
	// Beat says that a process is alive, Leave that it is not any more.
	Beat(ctx context.Context, process string) error
	Leave(ctx context.Context, process string) error
	// Acknowledge says that a process has handed over what it remembered of the
	// epochs before, and remembers no more of them.
	Acknowledge(ctx context.Context, sale string, epoch int64, process string) error
	// Acknowledged tells whether every process has that beat less than silence ago.
	Acknowledged(ctx context.Context, sale string, epoch int64, silence time.Duration) (bool, error)
}

// CommitStore makes rows of reservations.
type CommitStore interface {
	// Commit writes reservations in one transaction and returns one verdict
	// each. An order that is already there is left as it is.
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
	// Cancel ends an order that waits for its payment. When ret is nil the order
	// is as it was.
	Cancel(ctx context.Context, id ID) (o Order, ret *Return, err error)
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
	Order(ctx context.Context, id ID) (Order, error)
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
