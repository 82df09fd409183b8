package orders

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/failure"
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
	// ErrDurability: Redis is configured to keep less than Options.Durability. The message states what to configure.
	ErrDurability = errors.New("orders: durability")
	// ErrStillRefused is an ErrConflict: the database refuses a dead letter again.
	ErrStillRefused = fmt.Errorf("%w: the database still refuses the order", ErrConflict)
	// ErrForceRequired is an ErrConflict: the change would disrupt a sale, and Definition.Force is not set. The message describes how.
	ErrForceRequired = fmt.Errorf("%w: Force is required", ErrConflict)
	// ErrForeign: the database and the namespace in Redis do not belong together. The message states what was found and what to do.
	ErrForeign = errors.New("orders: foreign database")
	// ErrPoison is the kind of a database error that retrying cannot fix.
	ErrPoison = errors.New("orders: the database refuses this order")
	// ErrLaterVersion is an ErrUnavailable: a task or a record was written by a later program, and waits until one handles it.
	ErrLaterVersion = fmt.Errorf("%w: written by a later version", ErrUnavailable)
)

// Error is an error whose caller needs more than its kind: errors.AsType[*orders.Error] finds it. Of an ErrInvalid, Field is that
// of the Definition or Request, or the parameter, such as "Items[0].Stock", "Key" or "reference".
type Error = failure.Error
