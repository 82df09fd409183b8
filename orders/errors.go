package orders

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

// Errors of this package. A refusal is not an error: see Outcome.
var (
	ErrUnknownSale  = errors.New("orders: no such sale")
	ErrUnknownItem  = errors.New("orders: no such item in this sale")
	ErrUnknownOrder = errors.New("orders: no such order")
	ErrUserRequired = errors.New("orders: this sale takes orders of known users only")
	ErrKeyRequired  = errors.New("orders: the request needs a Key")
	ErrConflict     = errors.New("orders: the change contradicts what stands")
	ErrInvalid      = errors.New("orders: invalid") // a definition or request that no state of the sale could satisfy
	ErrOrderFinal   = errors.New("orders: the order is final")

	// ErrUnavailable: Redis or the database did not answer in time. A reservation may have happened nevertheless: repeat it
	// with the same key.
	ErrUnavailable = errors.New("orders: store unavailable")
	// ErrRecovering: Redis lost data, and the sale is being rebuilt from the database.
	ErrRecovering = errors.New("orders: the sale is recovering")

	// ErrUncommitted is an ErrUnavailable: the order is accepted and not committed yet. Changes to it have to be retried until
	// it is committed.
	ErrUncommitted = fmt.Errorf("%w: not committed yet", ErrUnavailable)
	// ErrQueue is an ErrUnavailable: the Redis of the task queue does not answer, or refuses a command.
	ErrQueue = fmt.Errorf("%w: task queue", ErrUnavailable)
	// ErrDurability: Redis is configured to keep less than Options.Durability. The message says what to configure.
	ErrDurability = errors.New("orders: durability")
	// ErrStillRefused is an ErrConflict: the database refuses a dead letter again.
	ErrStillRefused = fmt.Errorf("%w: the database still refuses the order", ErrConflict)
	// ErrForceRequired is an ErrConflict: the change would disrupt a sale, and Definition.Force is not set. The message says how.
	ErrForceRequired = fmt.Errorf("%w: Force is required", ErrConflict)
	// ErrForeign: the database and the namespace in Redis do not belong together. The message says what was found and what to do.
	ErrForeign = errors.New("orders: foreign database")
	// ErrPoison marks a database error that retrying cannot fix.
	ErrPoison = errors.New("orders: the database refuses this order")
)

// errNoLease: a recovery may be running without this process, so it accepts no orders.
var errNoLease = fmt.Errorf("%w: database: no heartbeat has reached it for %v", ErrUnavailable, liveness.LeaseFor)

// errNoWorker: no worker is known that would commit an accepted order.
var errNoWorker = fmt.Errorf("%w: no worker has committed orders, or proved that it could, for %v", ErrUnavailable, commitsWithin)

// errForeign is the answer while the database and Redis do not belong together.
var errForeign = fmt.Errorf("%w: %w", ErrUnavailable, ErrForeign)

// errLeaseLapsed: the order was accepted under an earlier lease, and may be rejected when it is handed over.
var errLeaseLapsed = fmt.Errorf("%w: the order was accepted before a silence, and is about to be handed over", ErrUnavailable)

// errOvertaken: another leader has raised the epoch, or holds an item.
var errOvertaken = fmt.Errorf("%w: another leader has the sale", ErrRecovering)

// errNotLoaded: this process has not read the sales yet.
var errNotLoaded = fmt.Errorf("%w: sales are not loaded yet", ErrUnavailable)

// errLaterVersion: a task or a record was written by a later program, and waits until one handles it.
var errLaterVersion = fmt.Errorf("%w: written by a later version", ErrUnavailable)

// Error is an error whose caller needs more than its kind: errors.AsType[*orders.Error] finds it. Of an ErrInvalid, Field is that of the Definition or
// Request, or the parameter, such as "Items[0].Stock", "Key" or "reference".
type Error = failure.Error

// StoreError wraps the error of the store operation op for the Store interface. Errors of this package stay as they are, data
// that the database refused becomes ErrPoison, and everything else ErrUnavailable.
func StoreError(op string, err error, refused bool) error {
	if err == nil {
		return nil
	}
	for _, answer := range []error{ErrUnknownSale, ErrUnknownOrder, ErrConflict, ErrPoison} {
		if errors.Is(err, answer) {
			return err
		}
	}
	if refused {
		return failure.New(ErrPoison, "%s", op).Because(err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, err)
}
