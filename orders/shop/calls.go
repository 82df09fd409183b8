package shop

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/admin"
	"github.com/tidegate/tidegate/orders/shop/internal/audit"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/reserve"
)

// The calls of a Service, each of which one of its parts does.

type (
	// An Attempt is a prepared request. Screen decides it from memory if that is certain, Reserve in Redis, and Replay finds the
	// order of an earlier request with the same key; Remembered reports whether this process may have it.
	Attempt = reserve.Attempt
	// RoomStock is what a waiting room may ask and do: it is a waitingroom.Stock. Users are the names that orders have.
	RoomStock = admin.RoomStock
	// Ownership is what a database and a namespace in Redis store of each other. Its Err describes what does not fit.
	Ownership = core.Ownership
)

// ReadOwnership reads what a database and a namespace store of each other. It changes nothing.
func ReadOwnership(ctx context.Context, rdb redis.Cmdable, store Store, namespace string) (Ownership, error) {
	return core.ReadOwnership(ctx, rdb, store, namespace)
}

// Adopt makes a database and a namespace in Redis belong together, whatever they belonged to. Processes of both should be stopped.
func Adopt(ctx context.Context, rdb redis.Cmdable, store Store, namespace string) error {
	return core.Adopt(ctx, rdb, store, namespace)
}

// VerifiedAt reports whether VerifyInBackground verifies the sale at a time.
func VerifiedAt(s *orders.Sale, now time.Time) bool { return audit.VerifiedAt(s, now) }

// Prepare checks a request without any I/O. It returns ErrInvalid, ErrUnknownSale, ErrUnknownItem, ErrUserRequired,
// ErrKeyRequired, or ErrUnavailable until the sales are first loaded.
func (s *Service) Prepare(req orders.Request) (*Attempt, error) {
	return s.reserver.Prepare(req)
}

// Place orders units of an item, one if req.Quantity is 0: it prepares, screens and reserves. A refusal is an Outcome too. Its
// errors are those of Prepare and Reserve; after ErrUnavailable or ErrRecovering repeat it, with the same key. A program that
// has to limit its callers uses the steps, and applies its rules between Screen and Reserve.
func (s *Service) Place(ctx context.Context, req orders.Request) (orders.Outcome, error) {
	return s.reserver.Place(ctx, req)
}

// Order returns an order, from memory or Redis while it is not committed, otherwise from the database. It returns
// ErrUnknownOrder also for another user's order.
func (s *Service) Order(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error) {
	return s.reader.Order(ctx, id, v)
}

// Wait is like Order, but waits while the order has the status while: at most for the duration wait, or until WakeWaiters.
func (s *Service) Wait(ctx context.Context, id orders.ID, v orders.Viewer, while orders.Status, wait time.Duration) (orders.Order, error) {
	return s.reader.Wait(ctx, id, v, while, wait)
}

// Orders lists orders of a sale: all of them if q.Viewer.All is set, otherwise the viewer's own. Uncommitted orders are
// included.
func (s *Service) Orders(ctx context.Context, q orders.Query) ([]orders.Order, error) {
	return s.reader.Orders(ctx, q)
}

// Events returns the changes of all orders with sequence numbers above after, in ascending order: at most limit. It waits up to
// wait for the first one, and then returns none. No event is ever added before one that was returned. It returns ErrUnavailable
// when the database does not answer.
func (s *Service) Events(ctx context.Context, after int64, limit int, wait time.Duration) ([]orders.Event, error) {
	return s.reader.Events(ctx, after, limit, wait)
}

// Totals counts the orders of a sale. The database reads all of them.
func (s *Service) Totals(ctx context.Context, sale string) (orders.Totals, error) {
	return s.reader.Totals(ctx, sale)
}

// Pay records that the order was paid for. The reference is the payment provider's; repeating it returns the same payment.
// An order that no longer waits for payment, or never did, keeps its status, and the capture is to be refunded. It returns
// ErrInvalid, ErrUnknownOrder, ErrConflict if the reference belongs to another order, and ErrUnavailable or ErrRecovering
// when the call has to be repeated. Captures of uncommitted orders are not recorded: those of a dead letter return
// ErrUncommitted until it is replayed.
func (s *Service) Pay(ctx context.Context, id orders.ID, reference string) (orders.Payment, error) {
	return s.lifecycle.Pay(ctx, id, reference)
}

// Cancel ends an order that waits for payment, and returns its units. Cancelling it again returns the order again. It returns
// ErrUnknownOrder, also for another user's order, ErrOrderFinal with the order in its current state, and ErrUnavailable or
// ErrRecovering when the call has to be repeated.
func (s *Service) Cancel(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error) {
	return s.lifecycle.Cancel(ctx, id, v)
}

// PutSale creates a sale as a draft, or changes one. It returns ErrInvalid, ErrConflict or ErrUnavailable, and is
// idempotent. ErrForceRequired: the hours would shut a sale that is open, or Anonymous would change although there are orders,
// and d.Force is not set.
func (s *Service) PutSale(ctx context.Context, d orders.Definition) (status orders.SaleStatus, created bool, err error) {
	return s.admin.PutSale(ctx, d)
}

// PutItem adds an item to a sale, or changes it, and leaves the others as they are. It returns ErrUnknownSale or an error of
// PutSale, and is idempotent.
func (s *Service) PutItem(ctx context.Context, sale string, item orders.ItemDefinition) (status orders.SaleStatus, added bool, err error) {
	return s.admin.PutItem(ctx, sale, item)
}

// SetSwitch publishes, pauses or closes a sale.
func (s *Service) SetSwitch(ctx context.Context, sale string, to orders.Switch) (orders.SaleStatus, error) {
	return s.admin.SetSwitch(ctx, sale, to)
}

// RebuildSale rebuilds a sale in Redis from the database and what all processes remember, in a new epoch, whether or not anything looks
// wrong. It returns when the sale has been opened again: within a second or two, during which its orders are refused with
// ErrRecovering. When ctx ends first it returns ErrRecovering, and the rebuilding goes on. Its other errors are ErrUnknownSale,
// ErrUnavailable, and ErrConflict for a sale that Redis has forgotten because it ended seven days ago.
func (s *Service) RebuildSale(ctx context.Context, sale string) (orders.SaleStatus, error) {
	return s.admin.RebuildSale(ctx, sale)
}

// Sale returns the status of a sale, at most 200 ms old.
func (s *Service) Sale(ctx context.Context, sale string) (orders.SaleStatus, error) {
	return s.sales.Sale(ctx, sale)
}

// SaleState returns a sale in the state that its definition gives. Like SaleStates, it reads nothing.
func (s *Service) SaleState(sale string) (orders.SaleStatus, error) {
	return s.sales.SaleState(sale)
}

// SaleStates returns all sales, sorted by name, in the states that their definitions give. It reads nothing: units are missing,
// and so is whether a sale is recovering.
func (s *Service) SaleStates() ([]orders.SaleStatus, error) {
	return s.sales.SaleStates()
}

// Sales returns the status of the sales whose names follow after, sorted by name: at most limit, 0 = all.
func (s *Service) Sales(ctx context.Context, after string, limit int) ([]orders.SaleStatus, error) {
	return s.sales.Sales(ctx, after, limit)
}

// Verify checks, on the running system, the schema, and every invariant of a sale that Redis and the database show together. It changes
// nothing. It returns ErrUnknownSale, and ErrUnavailable or ErrRecovering when the check is not possible now.
func (s *Service) Verify(ctx context.Context, sale string) ([]orders.Check, error) {
	return s.verifier.Verify(ctx, sale)
}

// VerifyInBackground verifies the sales that start soon, are open, or ended lately, at once and then about once a minute, until
// ctx ends. Only one process at a time does so. The results, also those of the other processes, are passed to report, with when
// the sale was verified by this process's clock; of those of others only the broken invariants. A sale of which Redis has lost
// entries is rebuilt, once until it is found in order.
func (s *Service) VerifyInBackground(ctx context.Context, report func(sale string, checks []orders.Check, at time.Time)) error {
	return s.verifier.VerifyInBackground(ctx, report)
}

// DeadLetters lists accepted orders that the database refuses, sorted by id. They keep their units until an operator replays
// them. It returns ErrUnavailable when the database does not answer.
func (s *Service) DeadLetters(ctx context.Context, after orders.ID, limit int) ([]orders.DeadLetter, error) {
	return s.lifecycle.DeadLetters(ctx, after, limit)
}

// Replay commits a dead letter after the cause of the database's refusal was fixed. It returns the order in its new state,
// ErrUnknownOrder, ErrStillRefused with the database's message while it still refuses, ErrConflict if other orders have its units, and
// ErrUnavailable or ErrRecovering when the call has to be repeated. It is idempotent: a repetition returns the order again.
func (s *Service) Replay(ctx context.Context, id orders.ID) (orders.Order, error) {
	return s.lifecycle.Replay(ctx, id)
}

// Shown returns the name of an order in logs, traces and lists for those who only look: its id, or a reference if it has no
// buyer. The id of an anonymous order is a secret, with which anybody can cancel it. The zero ID: the key of references is not loaded yet.
func (s *Service) Shown(id orders.ID, buyer string) orders.ID {
	return s.core.Shown(id, buyer)
}

// ParseShown reads an id, or what Shown returned, for callers who may see all orders. It returns ErrUnknownOrder for any other text. One
// reference in two million reads as an id that was not issued.
func (s *Service) ParseShown(text string) (orders.ID, error) {
	return s.core.ParseShown(text)
}

// Backlog counts uncommitted orders, in as many round trips however many these are. Items that are recovering are left out.
func (s *Service) Backlog(ctx context.Context) (orders.Backlog, error) {
	return s.verifier.Backlog(ctx)
}

// Queues are the names of the queues that accepted orders wait in.
func (s *Service) Queues() []string {
	return s.enqueuer.Queues()
}

// InProgress returns the number of tasks that workers are processing, according to the queue's Redis. A task has one order or more.
func (s *Service) InProgress(ctx context.Context) (int, error) {
	return s.enqueuer.InProgress(ctx)
}

// Committed returns how many orders all processes committed, as far as this process was notified since it started. Commits made
// while Redis is unreachable may be missing.
func (s *Service) Committed() uint64 {
	return s.notifier.Committed()
}

// Processes returns the processes that have sent a heartbeat within the last 5 s, this one included. It returns false while that
// is not known: in the first two seconds of this process, and when the database does not answer.
func (s *Service) Processes() (list []orders.Process, known bool) {
	return s.membership.Processes()
}

// RememberedFor returns how far back this process remembers the orders that it accepted: those that were committed within that time
// are committed again if the database loses them.
func (s *Service) RememberedFor() time.Duration {
	return s.keeper.RememberedFor()
}

// Drain commits the uncommitted orders that this process remembers. Call it before the process exits, when no more requests can
// arrive. Orders that it could not commit in time are only in the outbox, and are lost if Redis is lost.
func (s *Service) Drain(ctx context.Context) error {
	return s.keeper.Drain(ctx)
}

// RoomStock returns the connection of waiting rooms with the sales.
func (s *Service) RoomStock() *RoomStock {
	return admin.NewRoomStock(s.core, s.sales, s.admin)
}
