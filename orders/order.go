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

// OwnsUnits reports whether an order of this status owns its units and counts against its buyer's quota.
func (s Status) OwnsUnits() bool {
	return s == StatusAccepted || s == StatusConfirmed || s == StatusPaid
}

// Order is an order as its buyer sees it.
type Order struct {
	ID          ID
	Status      Status
	Sale        string
	Item        string
	Buyer       string // the user; empty for an anonymous order
	Quantity    int
	Units       []int // known from the commit on
	Reason      Reason
	AcceptedAt  time.Time
	ConfirmedAt time.Time // zero before the commit
	PayBefore   time.Time // zero when there is nothing to pay in time
}

// Viewer is the caller who reads an order.
type Viewer struct {
	User string
	All  bool // an operator's or a service's view
}

// CanRead reports whether the viewer may see the order. An order of a user is visible to that user only, an anonymous order to
// everybody who has its id.
func (v Viewer) CanRead(o *Order) bool { return v.All || o.Buyer == "" || o.Buyer == v.User }

// Request asks for an order. Nothing in it is trusted.
type Request struct {
	Sale     string
	Item     string
	Quantity int    // at least 1, but for Place
	User     string // empty: anonymous; Key then identifies the buyer
	Key      string // the Idempotency-Key; may be empty if the quota is 1 and User is set; without a user a secret of 22 characters or more
}

// Outcome is the result of a Request: an order, or the reason for a refusal.
type Outcome struct {
	Reason     Reason        // empty: Order is accepted
	Order      Order         // the order; with ReasonQuotaPerBuyer at most its ID
	Replayed   bool          // the order existed before this request
	Free       int           // units left, with ReasonNotEnough
	Quota      int           // of a buyer, with ReasonQuotaPerBuyer
	Room       string        // with ReasonTurnRequired
	RetryAfter time.Duration // when to retry; zero: retrying is useless, or possible at any time
}

// Admitted reports whether there is an order. The zero Outcome has none.
func (o *Outcome) Admitted() bool { return o.Reason == "" && o.Order.ID != ID{} }
