// Package stock is what sales report to waiting rooms, so that packages orders and waitingroom need not know each other.
package stock

import "time"

// Supply is what is left of an item, and what became of users whom a room had admitted.
type Supply struct {
	Free  int           // units
	Final bool          // no more will be added
	Lag   time.Duration // how long accepted orders wait for their commit
	Sale  SaleState
	Used  []string // for each user the order for which the admission was used, Revoked, or ""
}

// Revoked stands in the place of an order, for an admission that was taken back.
const Revoked = "revoked"

// SaleState is why a sale takes no orders.
type SaleState string

// The states of a sale, which script supply.lua of package orders returns.
const (
	Open       SaleState = ""
	Paused     SaleState = "paused"
	NotStarted SaleState = "not_started" // or is a draft
	Ended      SaleState = "ended"       // over, or closed
)
