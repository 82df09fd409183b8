package orders

import (
	"encoding/json"
	"strconv"
	"time"
)

// Reservation is what Redis promised and the database does not know yet. As
// JSON it is the record in Redis and the payload of the task, so that neither
// depends on the other.
type Reservation struct {
	ID         ID     `json:"id"`
	Epoch      int64  `json:"e"`
	Sale       string `json:"s"`
	Item       string `json:"i"`
	Buyer      string `json:"b,omitempty"`
	BuyerHash  string `json:"h"`
	KeyHash    string `json:"k"`
	Quantity   int    `json:"q"`
	Units      []int  `json:"u,omitempty"` // known to Redis first
	AcceptedMS int64  `json:"t,omitempty"` // Unix milliseconds of Redis' clock
	// Reason, when set, makes the commit write the order as rejected, without units.
	Reason Reason `json:"-"`
}

// body is the record without what the scripts add to it.
func (r Reservation) body() string {
	r.Units, r.AcceptedMS = nil, 0
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(b[:len(b)-1])
}

// record is the reservation as the scripts write it.
func (r Reservation) record() string {
	return r.body() + `,"u":[` + joined(r.Units) + `],"t":` + strconv.FormatInt(r.AcceptedMS, 10) + "}"
}

// ParseReservation reads a record, a task's payload, or a dead letter.
func ParseReservation(record []byte) (Reservation, error) {
	var r Reservation
	err := json.Unmarshal(record, &r)
	return r, err
}

// Accepted is the order that a reservation stands for. A dead letter's, too:
// it waits for an operator, and is accepted until then.
func (r *Reservation) Accepted() Order {
	return Order{
		ID: r.ID, Status: StatusAccepted, Sale: r.Sale, Item: r.Item, Buyer: r.Buyer, Quantity: r.Quantity,
		Reason: r.Reason, AcceptedAt: time.UnixMilli(r.AcceptedMS).UTC(),
	}
}

// Holding is what Redis must know of a dead letter.
func (r *Reservation) Holding() Holding {
	return Holding{
		ID: r.ID, Item: r.Item, BuyerHash: r.BuyerHash, KeyHash: &r.KeyHash,
		Quantity: r.Quantity, Status: StatusAccepted, Units: r.Units,
	}
}
