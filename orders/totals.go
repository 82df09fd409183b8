package orders

import (
	"time"
)

// Totals count the orders of a sale that the database has. The zero value cannot be added to.
type Totals struct {
	Orders  map[Status]int
	Refunds int // captures that found no order waiting for payment, and are to be refunded
	Items   map[string]ItemTotals
}

// ItemTotals count the units of an item.
type ItemTotals struct {
	Cancelled int       // units of cancelled orders, which are on sale again or have been sold again
	Expired   int       // units of expired orders, likewise
	Latest    time.Time // when the latest of the orders was accepted that have units; zero: none has
}

// Add adds a number of orders of an item that have the same status: how many units they are of, and when the latest was accepted. Stores
// call it.
func (t *Totals) Add(item string, status Status, orders, units int, latest time.Time) {
	t.Orders[status] += orders
	of := t.Items[item]
	switch {
	case status == StatusCancelled:
		of.Cancelled += units
	case status == StatusExpired:
		of.Expired += units
	case status.OwnsUnits() && latest.After(of.Latest):
		of.Latest = latest.UTC()
	}
	t.Items[item] = of
}
