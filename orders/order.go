package orders

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/input"
)

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

// Most characters of a Request's texts.
const (
	MaxUser = 255
	MaxKey  = 255
)

// Validate returns an ErrInvalid for a field that no order can have.
func (r *Request) Validate() error {
	if r.Quantity < 1 || r.Quantity > MaxQuota {
		return failure.At(ErrInvalid, "Quantity", "is %d, and must be from 1 to %d", r.Quantity, MaxQuota)
	}
	for _, text := range []struct {
		field, value string
		most         int
	}{{"Key", r.Key, MaxKey}, {"User", r.User, MaxUser}} {
		if err := input.Printable(text.value, text.most); err != nil {
			return failure.At(ErrInvalid, text.field, "%v", err)
		}
	}
	return nil
}

// Reservation returns what the buyer asks for. The service adds the id, the epoch and the hashes, and Redis the units and the time.
func (r *Request) Reservation() Reservation {
	return Reservation{Sale: r.Sale, Item: r.Item, Buyer: r.User, Quantity: r.Quantity}
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

const recordID = `{"id":"` // in front of the id

// Body returns the record without its closing brace and the fields that the scripts append, and the id, which is a part of it.
func (r *Reservation) Body() (body, id string) {
	var buf [384]byte
	body = string(r.appendBody(buf[:0]))
	return body, body[len(recordID):][:idLength]
}

// appendBody appends the body of a record as encoding/json would write it, at a fifth of the cost: every order is encoded for Redis and for
// its task.
func (r *Reservation) appendBody(b []byte) []byte {
	b = slices.Grow(b, 384)
	b = append(r.ID.append(append(b, recordID...)), `","e":`...)
	b = appendText(append(strconv.AppendInt(b, r.Epoch, 10), `,"s":`...), r.Sale)
	b = appendText(append(b, `,"i":`...), r.Item)
	if r.Buyer != "" {
		b = appendText(append(b, `,"b":`...), r.Buyer)
	}
	b = appendText(append(b, `,"h":`...), r.BuyerHash)
	b = appendText(append(b, `,"k":`...), r.KeyHash)
	return strconv.AppendInt(append(b, `,"q":`...), int64(r.Quantity), 10)
}

// appendText appends a string in JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// record returns the reservation as the scripts write it.
func (r Reservation) Record() string { return string(r.AppendRecord(nil)) }

func (r *Reservation) AppendRecord(b []byte) []byte {
	b = append(r.appendBody(b), `,"u":[`...)
	for i, unit := range r.Units {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(unit), 10)
	}
	return append(strconv.AppendInt(append(b, `],"t":`...), r.AcceptedMS, 10), '}')
}

// recordVersion is the version of the records that this program writes, which do not say it. A later program raises it, in the
// field "v", when an earlier one must not commit its records: that would lose what they say.
const recordVersion = 1

// versioned is a record as it is read.
type versioned struct {
	Reservation
	Version int `json:"v"`
}

// ParseReservation reads a record, a task's payload, or a dead letter. It returns an ErrUnavailable if the
// record waits for a later program.
func ParseReservation(record []byte) (Reservation, error) {
	var v versioned
	if err := json.Unmarshal(record, &v); err != nil {
		return Reservation{}, err
	}
	return v.Reservation, v.check()
}

func (v *versioned) check() error {
	switch {
	case v.Version > recordVersion:
		return fmt.Errorf("%w: record %d, this program reads %d", ErrLaterVersion, v.Version, recordVersion)
	case v.ID == ID{} || v.Quantity < 1:
		return errors.New("orders: not a reservation: it has no id or no quantity")
	}
	return nil
}

// Accepted returns the order that a reservation stands for. A dead letter also counts as accepted until an operator replays it.
func (r *Reservation) Accepted() Order {
	return Order{
		ID: r.ID, Status: StatusAccepted, Sale: r.Sale, Item: r.Item, Buyer: r.Buyer, Quantity: r.Quantity,
		Reason: r.Reason, AcceptedAt: time.UnixMilli(r.AcceptedMS).UTC(),
	}
}

// ParseReservations reads the payload of a task. It leaves out the orders that are unreadable or of a later version, and returns how many
// these are, so that they do not keep the others from being committed. The outbox has them.
func ParseReservations(payload []byte) (list []Reservation, damaged, later int, err error) {
	var all []versioned
	if json.Unmarshal(payload, &all) == nil && !slices.ContainsFunc(all, func(v versioned) bool { return v.check() != nil }) {
		list = make([]Reservation, len(all))
		for i := range all {
			list[i] = all[i].Reservation
		}
		return list, 0, 0, nil
	}
	var texts []json.RawMessage
	if err := json.Unmarshal(payload, &texts); err != nil {
		return nil, 0, 0, err
	}
	for _, text := range texts {
		r, err := ParseReservation(text)
		switch {
		case err == nil:
			list = append(list, r)
		case errors.Is(err, ErrLaterVersion):
			later++
		default:
			damaged++
		}
	}
	return list, damaged, later, nil
}
