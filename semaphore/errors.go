package semaphore

import (
	"errors"

	"github.com/tidegate/tidegate/internal/failure"
)

var (
	// ErrPermitLost is the cause of a Permit's cancelled context when its lease has expired, or when another caller has released it.
	ErrPermitLost = errors.New("semaphore: permit lost")
	// ErrUnknown is the error for a semaphore without a definition.
	ErrUnknown = errors.New("semaphore: unknown semaphore")
	// ErrTooHeavy is the error for a weight above the limit; it could never be granted.
	ErrTooHeavy = errors.New("semaphore: weight is above the limit")
	// ErrInvalid is wrapped by errors for invalid arguments: a name, a weight, a definition.
	ErrInvalid = errors.New("semaphore: invalid")
	// ErrClosed is the error after Run has ended.
	ErrClosed = errors.New("semaphore: closed")
)

func invalid(format string, args ...any) error {
	return failure.New(ErrInvalid, format, args...)
}
