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
