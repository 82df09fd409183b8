// Package storage is what a service of orders needs of a database: Store, which packages postgres, sqlite and memory implement,
// and what it takes and returns.
package storage

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/inspection"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

// Verdict is the result of the commit of one reservation.
type Verdict struct {
	// Status of the order's row; empty when Stale or Taken prevented the row.
	Status orders.Status
	Reason orders.Reason
	// Repeated: the row already existed.
	Repeated bool
	// Stale: the reservation is of an epoch below the sale's floor, or above its epoch.
	Stale bool
	// Taken are those of its units that belong to other orders, or are above the stock.
	Taken []int
}

// Holding is an order that has units or a key, so it has to be loaded into Redis again after a loss.
type Holding struct {
	ID        orders.ID
	Item      string
	BuyerHash string
	KeyHash   *string // nil: it has given up its identity
	Quantity  int
	Status    orders.Status // accepted for a dead letter
	Units     []int         // that it owns now
}

// HoldingOf returns what Redis needs to know of a dead letter.
func HoldingOf(r *orders.Reservation) Holding {
	return Holding{
		ID: r.ID, Item: r.Item, BuyerHash: r.BuyerHash, KeyHash: &r.KeyHash,
		Quantity: r.Quantity, Status: orders.StatusAccepted, Units: r.Units,
	}
}

// Return is units of an order that ended unpaid, on their way back to Redis.
type Return struct {
	ID         orders.ID
	Sale       string
	Item       string
	Epoch      int64 // the sale's when the order ended
	BuyerHash  string
	WithoutKey bool // the order had no key: it was the buyer's only one of the item, and gives that up too
	Quantity   int
	Units      []int
	Status     orders.Status // cancelled or expired, from Cancel and Expire
}

// Filter selects orders of one sale, in the order of their ids: committed ones,
// and dead letters, which are accepted.
type Filter struct {
	Sale      string
	BuyerHash string        // optional
	Status    orders.Status // optional
	After     orders.ID     // exclusive
	Limit     int
}

// LongAgo is when sales ended that are not read any more.
func LongAgo(now time.Time) time.Time { return now.AddDate(0, 0, -400) }

// Store is the database. Its methods return ErrUnavailable, wrapped, when the database did not answer, and ErrUnknownSale,
// ErrUnknownOrder or ErrConflict where that is the result. Commit returns ErrPoison for rows that no retry will store. It is
// safe for concurrent use.
type Store interface {
	saleStore
	recoveryStore
	commitStore
	deadLetterStore
	lifeStore
	readStore
	installationStore
	Ping(ctx context.Context) error
	// CheckSchema returns migrations.ErrOutdated if the database lacks a migration, and a *migrations.IncompleteError if it lacks a
	// constraint, for example.
	CheckSchema(ctx context.Context) error
}

// installationStore stores which installation the database belongs to.
type installationStore interface {
	Installation(ctx context.Context) (Installation, error)
	// Install stores the namespace, the place of the database and a new id, if there are none yet or replace is set.
	Install(ctx context.Context, namespace string, replace bool) error
}

// saleStore stores the definitions of sales.
type saleStore interface {
	// Differing returns the names of the sales that are not as they are known: changed, new or gone. Sales that ended more than 400 days ago
	// are gone. It reads little while nothing differs.
	Differing(ctx context.Context, known *KnownSales) ([]string, error)
	// Sales returns those of the named sales that are there and ended less than 400 days ago, by name.
	Sales(ctx context.Context, names []string) ([]orders.Sale, error)
	// PutSale creates or changes a sale. It never changes an existing switch, epoch, salt or number. It returns the stored
	// sale, and the ids of the new items.
	PutSale(ctx context.Context, def orders.Sale) (sale orders.Sale, created bool, added []string, err error)
	SetSwitch(ctx context.Context, sale string, to orders.Switch) error
	// SetRoom sets the waiting room of an item, or none, and gives the sale a new revision. ErrConflict: the item's room is neither
	// from nor to.
	SetRoom(ctx context.Context, sale, item, from, to string) error
	// IDKey never changes.
	IDKey(ctx context.Context) (orders.IDKey, error)
}

// Lead is the right of one leader to rebuild a sale in one epoch. The token distinguishes leaders if the database ever assigns
// the same epoch twice.
type Lead struct {
	Sale  string
	Epoch int64
	Token string
}

// LastEvent is an event that a process has seen committed. Events are never deleted: a database without it has lost commits. The
// zero value stands for none.
type LastEvent struct {
	Seq   int64
	Order orders.ID
}

// AllSales is a name for Lead that no sale has: of the process that verifies all sales.
const AllSales = "*"

// recoveryStore coordinates which process rebuilds a sale, and when.
type recoveryStore interface {
	// Lead runs fn in one process at a time per sale, or for AllSales. While another process leads the sale, it returns false at
	// once. A process that lost its lock may go on, so each of its operations has to check the epoch itself.
	Lead(ctx context.Context, sale string, fn func(context.Context) error) (led bool, err error)
	// RaiseEpoch begins a recovery: it raises the sale from the epoch seen to the leader's. Reservations of earlier epochs are
	// still committed; none can be made in the new epoch yet. ErrConflict: the sale is in another epoch.
	RaiseEpoch(ctx context.Context, seen int64, lead Lead) error
	// EndHandOver raises the floor to the leader's epoch, waits for running commits below it, and removes the silent members
	// from the process list. ErrConflict: the sale is in another epoch, or in another leader's.
	EndHandOver(ctx context.Context, lead Lead, silent []liveness.Member) error
	// Heartbeat stores a heartbeat of a process. No other operation of the store delays it. Leave removes the process from the process list.
	Heartbeat(ctx context.Context, self liveness.Self) (liveness.ProcessList, error)
	Leave(ctx context.Context, process string) error
	// Acknowledge records that a process has handed over the orders it remembered of earlier epochs. The late ones, which it
	// could not commit, are stored for the leader.
	Acknowledge(ctx context.Context, sale string, epoch int64, process string, late []orders.Reservation) error
	// HandOver returns the process list, and which members have acknowledged the leader's epoch. ErrConflict: the sale is in another
	// epoch, or in another leader's.
	HandOver(ctx context.Context, lead Lead) (liveness.ProcessList, error)
	// Late returns the late orders of a sale that acknowledgements stored. DeleteLate deletes some.
	Late(ctx context.Context, sale string) ([]orders.Reservation, error)
	DeleteLate(ctx context.Context, ids []orders.ID) error
	// Newest returns the newest event, and whether the one that was seen is still there.
	Newest(ctx context.Context, seen LastEvent) (newest LastEvent, there bool, err error)
}

// commitStore writes reservations as rows.
type commitStore interface {
	// Commit writes reservations in one transaction and returns one verdict each. An order that already exists is left
	// unchanged. Rejections also depend on the epoch: in a later one a unit may be free.
	Commit(ctx context.Context, batch []orders.Reservation) ([]Verdict, error)
	// Prove returns nil if orders could be committed: it does what Commit does, and writes none.
	Prove(ctx context.Context) error
}

// deadLetterStore keeps the orders that commitStore refuses.
type deadLetterStore interface {
	// AddDeadLetter keeps a reservation that the database refuses as a dead letter.
	AddDeadLetter(ctx context.Context, r orders.Reservation, reason string) error
	// DeadLetters returns those with ids above after, except those whose order is stored by now. DeleteDeadLetter deletes one, and stores
	// its returns.
	DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error)
	DeadLetter(ctx context.Context, id orders.ID) (orders.DeadLetter, error)
	DeleteDeadLetter(ctx context.Context, id orders.ID, back []Return) error
}

// lifeStore changes committed orders, and records each change.
type lifeStore interface {
	// Capture records a payment, once per reference, and sets the order to paid if it waits for payment. ErrConflict: the
	// reference belongs to another order.
	Capture(ctx context.Context, id orders.ID, reference string) (orders.Payment, error)
	// Pay is Capture for many orders, by their references. It returns the orders that it paid. It leaves the other cases to
	// Capture: orders that do not wait for payment, that another transaction has locked, or whose reference is known.
	Pay(ctx context.Context, references map[orders.ID]string) (paid []orders.ID, err error)
	// Cancel ends the orders that wait for payment, except those that another transaction has locked, and returns those it
	// ended.
	Cancel(ctx context.Context, ids []orders.ID) ([]Return, error)
	// Expire ends at most limit orders whose time to pay is over.
	Expire(ctx context.Context, limit int) ([]Return, error)
	// NextExpiry returns how long the next order still has to pay, at most most.
	NextExpiry(ctx context.Context, most time.Duration) (time.Duration, error)
	// Returns returns at most limit of the returns that Redis may not have yet, of one sale, or of all if sale is empty. They
	// are in random order, so that a sale that stays closed does not delay the others. Returned deletes some.
	Returns(ctx context.Context, sale string, limit int) ([]Return, error)
	Returned(ctx context.Context, ids []orders.ID) error
	// Events returns changes with larger sequence numbers. No event with a smaller number can be added after them.
	Events(ctx context.Context, after int64, limit int) ([]orders.Event, error)
}

// readStore reads orders.
type readStore interface {
	// Committed returns those of the given orders that the database has. Dead letters are returned as accepted orders.
	Committed(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Order, error)
	// Statuses returns the status of those of the given orders that the database has.
	Statuses(ctx context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error)
	// Orders returns the orders that match f, including dead letters without an order.
	Orders(ctx context.Context, f Filter) ([]orders.Order, error)
	// Holdings calls fn for every order of a sale whose units, quota or key are taken.
	Holdings(ctx context.Context, sale string, fn func(Holding) error) error
	// Owners calls fn for each unit of some items of a sale that an order owns.
	Owners(ctx context.Context, sale string, items []string, fn func(item string, unit int, owner orders.ID)) error
	// Latest returns the latest order of each buyer for an item, by the buyer's hash, of those that were not rejected.
	Latest(ctx context.Context, sale, item string, buyers []string) (map[string]orders.Order, error)
	// Totals counts the orders of a sale.
	Totals(ctx context.Context, sale string) (orders.Totals, error)
	// Unsettled reports whether orders of an item wait for payment or are dead letters, or units of ended ones are about to be returned.
	Unsettled(ctx context.Context, sale, item string) (bool, error)
	// Inspect looks for inconsistencies within the database. An order whose time to pay ended longer ago than late should have
	// expired.
	Inspect(ctx context.Context, sale string, late time.Duration) (inspection.Result, error)
}
