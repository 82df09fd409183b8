package shop

import (
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
)

// errNoLease: a recovery may be running without this process, so it accepts no orders.
var errNoLease = fmt.Errorf("%w: database: no heartbeat has reached it for %v", orders.ErrUnavailable, liveness.LeaseFor)

// errNoWorker: no worker is known that would commit an accepted order.
var errNoWorker = fmt.Errorf("%w: no worker has committed orders, or proved that it could, for %v", orders.ErrUnavailable, commitsWithin)

// errForeign is the answer while the database and Redis do not belong together.
var errForeign = fmt.Errorf("%w: %w", orders.ErrUnavailable, orders.ErrForeign)

// errLeaseLapsed: the order was accepted under an earlier lease, and may be rejected when it is handed over.
var errLeaseLapsed = fmt.Errorf("%w: the order was accepted before a silence, and is about to be handed over", orders.ErrUnavailable)

// errOvertaken: another leader has raised the epoch, or holds an item.
var errOvertaken = fmt.Errorf("%w: another leader has the sale", orders.ErrRecovering)

// errNotLoaded: this process has not read the sales yet.
var errNotLoaded = fmt.Errorf("%w: sales are not loaded yet", orders.ErrUnavailable)

// heartbeatTimeout bounds what a process writes of itself.
const heartbeatTimeout = 2 * time.Second

// commitsWithin is how long orders are accepted after a worker was last known to commit, or after the start of this process. Workers may be
// restarted meanwhile.
const commitsWithin = 30 * time.Second

// printable returns ErrInvalid unless s is printable and has at most most characters.
func printable(field, s string, most int) error {
	if err := input.Printable(s, most); err != nil {
		return failure.At(orders.ErrInvalid, field, "%v", err)
	}
	return nil
}
