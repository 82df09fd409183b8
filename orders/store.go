package orders

import "context"

// Verdict is what became of one reservation in a commit.
type Verdict struct {
	// Status of the order's row; empty when none was written because of what follows.
	Status Status
	Reason Reason
	// Stale: the reservation is of an epoch that is over.
	Stale bool
	// Taken are those of its units that belong to other orders.
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

// Filter selects committed orders of one sale, in the order of their ids.
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
	// Sales are the sales that ended less than 400 days ago.
	Sales(ctx context.Context) ([]Sale, error)
	// PutSale creates or changes a sale. It never touches an existing switch,
	// epoch, salt or number, and returns the sale as it stands, and the items that are new.
	PutSale(ctx context.Context, def Sale) (sale Sale, created bool, added []string, err error)
	SetSwitch(ctx context.Context, sale string, to Switch) error
	// Lead runs fn in at most one process at a time for a sale, and returns at
	// once, false, while another one does.
	Lead(ctx context.Context, sale string, fn func(context.Context) error) (led bool, err error)
	// RaiseEpoch waits for the commits that run under the old epoch.
	RaiseEpoch(ctx context.Context, sale string) error

	// Commit writes reservations in one transaction and returns one verdict
	// each. An order that is already there is left as it is.
	Commit(ctx context.Context, batch []Reservation) ([]Verdict, error)
	// Bury keeps a reservation that the database refuses as a dead letter.
	Bury(ctx context.Context, r Reservation, reason string) error

	Order(ctx context.Context, id ID) (Order, error)
	// Statuses are those of the given orders that the database knows.
	Statuses(ctx context.Context, ids []ID) (map[ID]Status, error)
	Orders(ctx context.Context, f Filter) ([]Order, error)
	// Holdings calls fn for every order of a sale whose units, quota or key are taken.
	Holdings(ctx context.Context, sale string, fn func(Holding) error) error
	// Owners are the orders that own an item's units.
	Owners(ctx context.Context, sale, item string) (map[int]ID, error)
	Ping(ctx context.Context) error
}
