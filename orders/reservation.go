package orders

import (
	"encoding/json"
	"strconv"
	"time"
)

// Reservation is an order that Redis accepted and the database does not have yet. Its JSON is both the record in Redis and the
// payload of the task, so that neither depends on the other.
type Reservation struct {
	ID         ID     `json:"id"`
	Epoch      int64  `json:"e"`
	Sale       string `json:"s"`
	Item       string `json:"i"`
	Buyer      string `json:"b,omitempty"`
	BuyerHash  string `json:"h"`
	KeyHash    string `json:"k"`
	Quantity   int    `json:"q"`
	Units      []int  `json:"u,omitempty"` // assigned in Redis
	AcceptedMS int64  `json:"t,omitempty"` // Unix milliseconds of Redis' clock
	// Reason, when set, makes the commit write the order as rejected, without units.
	Reason Reason `json:"-"`
}

// body returns the record without its closing brace and the fields that the scripts append.
func (r Reservation) body() string {
	r.Units, r.AcceptedMS = nil, 0
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(b[:len(b)-1])
}

// record returns the reservation as the scripts write it.
func (r Reservation) record() string {
	return r.body() + `,"u":[` + joined(r.Units) + `],"t":` + strconv.FormatInt(r.AcceptedMS, 10) + "}"
}

// ParseReservation reads a record, a task's payload, or a dead letter.
func ParseReservation(record []byte) (Reservation, error) {
	var r Reservation
	err := json.Unmarshal(record, &r)
	return r, err
}

// Accepted returns the order that a reservation stands for. A dead letter also counts as accepted until an operator replays it.
func (r *Reservation) Accepted() Order {
	return Order{
		ID: r.ID, Status: StatusAccepted, Sale: r.Sale, Item: r.Item, Buyer: r.Buyer, Quantity: r.Quantity,
		Reason: r.Reason, AcceptedAt: time.UnixMilli(r.AcceptedMS).UTC(),
	}
}

// Holding returns what Redis needs to know of a dead letter.
func (r *Reservation) Holding() Holding {
	return Holding{
		ID: r.ID, Item: r.Item, BuyerHash: r.BuyerHash, KeyHash: &r.KeyHash,
		Quantity: r.Quantity, Status: StatusAccepted, Units: r.Units,
	}
}
