package core

import (
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

// ErrNoLease means that a recovery may be running without this process, so it accepts no orders.
var ErrNoLease = fmt.Errorf("%w: database: no heartbeat has reached it for %v", orders.ErrUnavailable, liveness.LeaseFor)

// ErrNoWorker means that no worker is known that would commit an accepted order.
var ErrNoWorker = fmt.Errorf("%w: no worker has committed orders, or proved that it could, for %v", orders.ErrUnavailable, CommitsWithin)

// ErrForeign is the answer while the database and Redis do not belong together.
var ErrForeign = fmt.Errorf("%w: %w", orders.ErrUnavailable, orders.ErrForeign)

// ErrLeaseLapsed means that the order was accepted under an earlier lease, and may be rejected when it is handed over.
var ErrLeaseLapsed = fmt.Errorf("%w: the order was accepted before a silence, and is about to be handed over", orders.ErrUnavailable)

// ErrOvertaken means that another leader has raised the epoch, or holds an item.
var ErrOvertaken = fmt.Errorf("%w: another leader has the sale", orders.ErrRecovering)

// ErrNotLoaded means that this process has not read the sales yet.
var ErrNotLoaded = fmt.Errorf("%w: sales are not loaded yet", orders.ErrUnavailable)

// HeartbeatTimeout bounds what a process writes of itself.
const HeartbeatTimeout = 2 * time.Second

// CommitsWithin is how long orders are accepted after a worker was last known to commit, or after the start of this process. Workers may be
// restarted meanwhile.
const CommitsWithin = 30 * time.Second

// Printable returns ErrInvalid unless s is printable and has at most most characters.
func Printable(field, s string, most int) error {
	if err := input.Printable(s, most); err != nil {
		return failure.At(orders.ErrInvalid, field, "%v", err)
	}
	return nil
}
