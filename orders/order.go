package orders

import "time"

// Status is how far an order has come. It only moves forward:
//
//	accepted → confirmed → paid | cancelled | expired
//	accepted → rejected
type Status string

// The statuses. Accepted lives in Redis only; every other one is a row in the database.
const (
	StatusAccepted  Status = "accepted"
	StatusConfirmed Status = "confirmed"
	StatusPaid      Status = "paid"
	StatusCancelled Status = "cancelled"
	StatusExpired   Status = "expired"
	StatusRejected  Status = "rejected"
)

// Holds tells whether an order of this status owns its units and counts against its buyer's quota.
func (s Status) Holds() bool {
	return s == StatusAccepted || s == StatusConfirmed || s == StatusPaid
}

// Order is an order as its buyer sees it.
type Order struct {
	ID          ID
	Status      Status
	Sale        string
	Item        string
	Buyer       string // the user; empty when nobody was named
	Quantity    int
	Units       []int // known from the commit on
	Reason      Reason
	AcceptedAt  time.Time
	ConfirmedAt time.Time // zero before the commit
	PayBefore   time.Time // zero when there is nothing to pay in time
}

// Viewer is who asks for an order.
type Viewer struct {
	User string
	All  bool // an operator's or a service's view
}

// May tells whether the viewer may see the order. An order of a user is
// theirs alone; an order of nobody is seen by whoever holds its id.
func (v Viewer) May(o *Order) bool { return v.All || o.Buyer == "" || o.Buyer == v.User }

// Request asks for an order. Nothing in it is trusted.
type Request struct {
	Sale     string
	Item     string
	Quantity int
	User     string // empty: nobody is named, and Key is what the order belongs to
	Key      string // the Idempotency-Key; may be empty where the quota is 1 and a user is named; without a user a secret of 22 characters or more
}

// Outcome is the answer to a Request: an order, or a reason for none.
type Outcome struct {
	Reason     Reason        // empty: the order stands
	Order      Order         // the order; with ReasonQuotaPerBuyer at most its ID
	Replayed   bool          // the order stood before this request
	Free       int           // units left, with ReasonNotEnough
	Quota      int           // of a buyer, with ReasonQuotaPerBuyer
	RetryAfter time.Duration // when to come back; zero: no use, or any time
}

// Admitted tells whether the order stands.
func (o *Outcome) Admitted() bool { return o.Reason == "" }
