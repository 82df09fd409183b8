package semaphore

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/failure"
)

var (
	// ErrAtCapacity is wrapped by the error of every acquisition that got no permit because all were taken, see CapacityError.
	ErrAtCapacity = errors.New("semaphore: at capacity")
	// ErrPermitLost is the cause of a Permit's cancelled context when its lease has expired, or when another caller has released it.
	ErrPermitLost = errors.New("semaphore: permit lost")
	// ErrUnknown is the error for a semaphore without a definition.
	ErrUnknown = errors.New("semaphore: unknown semaphore")
	// ErrTooHeavy is the error for a weight above the limit; it could never be granted.
	ErrTooHeavy = errors.New("semaphore: weight is above the limit")
	// ErrInvalid is wrapped by errors for invalid arguments: a name, a weight, a definition.
	ErrInvalid = errors.New("semaphore: invalid")
	// ErrClosed is the error after Close.
	ErrClosed = errors.New("semaphore: closed")
)

// A CapacityError means that an acquisition got no permit because all were taken. It wraps ErrAtCapacity and the error that ended the
// wait, such as context.DeadlineExceeded.
type CapacityError struct {
	Name     string
	Position int           // last known position in the queue, from 1; for a caller that did not wait, the position it would have had
	Wait     time.Duration // estimated time until its turn; 0: unknown
	Err      error         // the error that ended the wait; nil for a caller that did not wait
}

func (e *CapacityError) Error() string {
	text := fmt.Sprintf("semaphore: %s is at capacity, position %d", e.Name, e.Position)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns ErrAtCapacity and the error that ended the wait.
func (e *CapacityError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrAtCapacity}
	}
	return []error{ErrAtCapacity, e.Err}
}

func invalid(format string, args ...any) error {
	return failure.New(ErrInvalid, format, args...)
}
