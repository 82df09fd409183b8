package storage

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
)

// Error wraps the error of the operation op of a Store. Errors of package orders stay as they are, data that the database refused becomes
// ErrPoison, and everything else ErrUnavailable.
func Error(op string, err error, refused bool) error {
	if err == nil {
		return nil
	}
	for _, answer := range []error{orders.ErrUnknownSale, orders.ErrUnknownOrder, orders.ErrConflict, orders.ErrPoison} {
		if errors.Is(err, answer) {
			return err
		}
	}
	if refused {
		return failure.New(orders.ErrPoison, "%s", op).WithCause(err)
	}
	return fmt.Errorf("%w: %s: %w", orders.ErrUnavailable, op, err)
}

// ErrStandby means that a pooler has moved on to a server that may be behind. What is read there is no sign that the database
// went back in time.
var ErrStandby = errors.New("the server is a standby")

// Refused reports whether an SQLSTATE means that the database refuses the data: a data exception, an integrity violation, or what a trigger
// raised.
func Refused(state string) bool {
	if len(state) != 5 {
		return false
	}
	return state[:2] == "22" || state[:2] == "23" || state[:2] == "P0"
}

// EpochMoved returns the error of a raise from an epoch that the sale has left.
func EpochMoved(sale string, seen int64) error {
	return failure.New(orders.ErrConflict, "sale %s is not in epoch %d any more", sale, seen)
}

// EpochOver returns the error of a leader whose epoch is over.
func EpochOver(lead Lead) error {
	return failure.New(orders.ErrConflict, "epoch %d of sale %s is over, or another leader's", lead.Epoch, lead.Sale)
}

// SwitchFinal returns the error of a change of the switch of a closed sale.
func SwitchFinal(sale string) error {
	return failure.New(orders.ErrConflict, "sale %s is closed for good", sale)
}

// OtherRoom returns the error of a change of the room of an item that has another one.
func OtherRoom(sale, item, room string) error {
	return failure.New(orders.ErrConflict, "item %s/%s has the waiting room %s", sale, item, room)
}

// OtherOrders returns the error of a payment whose reference belongs to another order.
func OtherOrders(reference string) error {
	return failure.New(orders.ErrConflict, "reference %q is of another order", reference)
}
