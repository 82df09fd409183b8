package semaphore

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrAtCapacity is in the error of every acquisition that got no permit because they were all taken, see CapacityError.
	ErrAtCapacity = errors.New("semaphore: at capacity")
	// ErrPermitLost is the cause with which a Permit's context ends when its lease is over, or when somebody else has released it.
	ErrPermitLost = errors.New("semaphore: permit lost")
	// ErrUnknown is the error for a name that nobody has defined.
	ErrUnknown = errors.New("semaphore: unknown semaphore")
	// ErrTooHeavy is the error for a weight above the limit, which could wait for ever.
	ErrTooHeavy = errors.New("semaphore: weight is above the limit")
	// ErrInvalid is in the error of whatever could never be right: a name, a weight, a definition.
	ErrInvalid = errors.New("semaphore: invalid")
	// ErrClosed is the error after Close.
	ErrClosed = errors.New("semaphore: closed")
)

// A CapacityError says how far a caller was from a permit. It is ErrAtCapacity, and what ended the waiting besides, such as
// context.DeadlineExceeded.
type CapacityError struct {
	Name     string
	Position int           // in the queue when it was last heard of, from 1 on; for a caller that did not wait, the place it would have had
	Wait     time.Duration // expected until its turn; 0 is not known
	Err      error         // what ended the waiting; nil for a caller that did not wait
}

func (e *CapacityError) Error() string {
	text := fmt.Sprintf("semaphore: %s is at capacity, position %d", e.Name, e.Position)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap makes errors.Is find ErrAtCapacity and what ended the waiting.
func (e *CapacityError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrAtCapacity}
	}
	return []error{ErrAtCapacity, e.Err}
}

// A TooHeavyError is ErrTooHeavy with the semaphore whose limit is too low.
type TooHeavyError struct{ Name string }

func (e *TooHeavyError) Error() string { return fmt.Sprintf("%v of %s", ErrTooHeavy, e.Name) }

// Unwrap makes errors.Is find ErrTooHeavy.
func (e *TooHeavyError) Unwrap() error { return ErrTooHeavy }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
