package judge

import (
	"time"

	"github.com/tidegate/tidegate/orders"
)

// Outcome is the result of one attempt, as its buyer observed it.
type Outcome string

// Outcomes. Lost means unknown: no answer, or a 5xx.
const (
	Admitted Outcome = "admitted"
	Refused  Outcome = "refused"
	Lost     Outcome = "lost"
)

// History is everything a crowd saw. The zero value is an empty history; not safe for concurrent use.
type History struct {
	Head
	Calls       []Call
	StatusReads []StatusRead
	Operations  []Operation
	Stops       []Stop
}

// Head identifies a run.
type Head struct {
	Prefix    string    `json:"prefix"` // every buyer of this crowd, and no other, has this prefix
	Sale      string    `json:"sale"`
	StartedAt time.Time `json:"started_at"` // all other times of a history count from here
	Seed      uint64    `json:"seed"`
	Planned   int       `json:"planned"` // calls
}

// Call is one attempt to order. Attempts of one planned call share Seq and count from 1. Orders placed again after a
// cancellation have a Seq of Head.Planned or more.
type Call struct {
	Seq      int           `json:"seq"`
	Attempt  int           `json:"attempt"`
	Buyer    string        `json:"buyer"`
	Item     string        `json:"item"`
	Quantity int           `json:"quantity"`
	Key      string        `json:"key"`
	API      int           `json:"api"`        // index of the process that was called
	Planned  time.Duration `json:"planned_ns"` // of the planned call, also for its later attempts
	Started  time.Duration `json:"started_ns"`
	Ended    time.Duration `json:"ended_ns"` // answered, or given up
	Outcome  Outcome       `json:"outcome"`
	Status   int           `json:"status,omitempty"` // HTTP; 0 = no answer
	Reason   string        `json:"reason,omitempty"` // of the problem; for a lost response also timeout, connection, hung_up, malformed
	OrderID  string        `json:"order_id,omitempty"`
	State    orders.Status `json:"order_status,omitempty"` // of the order in a 202
	HungUp   bool          `json:"hung_up,omitempty"`      // the buyer meant to cut this attempt, even if the response was faster
	Error    string        `json:"error,omitempty"`
}

// StatusRead is a status of an order that its buyer saw.
type StatusRead struct {
	OrderID string        `json:"order_id"`
	State   orders.Status `json:"order_status"`
	Since   time.Duration `json:"since_ns"` // when its buyer first read the order
	Started time.Duration `json:"started_ns"`
	Ended   time.Duration `json:"ended_ns"`
}

// OperationKind is what an Operation tries.
type OperationKind string

// Kinds of operations.
const (
	Payment OperationKind = "payment"
	Cancel  OperationKind = "cancel"
)

// Operation is one attempt to pay or to cancel an order. Attempts of one payment share Reference and Sent.
type Operation struct {
	Kind      OperationKind `json:"kind"`
	OrderID   string        `json:"order_id"`
	Reference string        `json:"reference,omitempty"` // of a payment
	Sent      int           `json:"sent"`                // number of the sending of this reference, from 1; its attempts share it
	Attempt   int           `json:"attempt"`             // from 1
	Started   time.Duration `json:"started_ns"`
	Ended     time.Duration `json:"ended_ns"`
	Outcome   Outcome       `json:"outcome"`                // Admitted: done
	Status    int           `json:"status,omitempty"`       // HTTP; 0 = no answer
	Reason    string        `json:"reason,omitempty"`       // as in Call
	State     orders.Status `json:"order_status,omitempty"` // in the answer
	Action    orders.Action `json:"action,omitempty"`       // none or refund, of a payment
	Error     string        `json:"error,omitempty"`
}

// Stop is a time in which an API process was stopped, with its connections open, while Redis lost its memory. The sale was then
// rebuilt without the orders that only this process had.
type Stop struct {
	API   int       `json:"api"` // as in Call
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}
