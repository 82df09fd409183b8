package orders

import (
	"time"
)

// Event is one change of an order, or a capture that is to be refunded.
type Event struct {
	Seq       int64
	At        time.Time // of the database's clock
	OrderID   ID
	Sale      string
	Item      string
	Buyer     string
	Quantity  int
	Units     []int
	Status    Status
	Reason    Reason
	Action    Action // of a capture
	Reference string // of a capture
}
