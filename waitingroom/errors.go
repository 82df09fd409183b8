package waitingroom

import (
	"errors"
	"fmt"
	"time"
)

// What the methods of Service return, wrapped.
var (
	// ErrUnknownRoom: there is no room of that name.
	ErrUnknownRoom = errors.New("waitingroom: unknown room")
	// ErrNotJoined: the visitor has no place in the room.
	ErrNotJoined = errors.New("waitingroom: no place in this room")
	// ErrUserRequired: the room takes known users only.
	ErrUserRequired = errors.New("waitingroom: the room takes known users only")
	// ErrNotStarted: the room does not take anybody yet.
	ErrNotStarted = errors.New("waitingroom: the room has not opened")
	// ErrEnded: the room takes nobody any more.
	ErrEnded = errors.New("waitingroom: the room has ended")
	// ErrSoldOut: the room has ended because everything is sold.
	ErrSoldOut = errors.New("waitingroom: sold out")
	// ErrTier: the lane takes visitors of another tier.
	ErrTier = errors.New("waitingroom: not for this visitor")
	// ErrNotYourTurn: claim when the place's state is turn.
	ErrNotYourTurn = errors.New("waitingroom: it is not your turn")
	// ErrAtCapacity: it is the visitor's turn, but the rate or the capacity is used up. The turn is kept; claim again in a second.
	ErrAtCapacity = errors.New("waitingroom: the rate or the capacity is used up")
	// ErrLapsed: the time to claim, or to use the pass, is over.
	ErrLapsed = errors.New("waitingroom: the turn has lapsed")
	// ErrConflict: the change is not possible in the room's state, or its request id belongs to another change.
	ErrConflict = errors.New("waitingroom: conflict")
	// ErrInvalid: a definition or request is invalid; the message says what is and what would be right.
	ErrInvalid = errors.New("waitingroom: invalid")
	// ErrUnavailable: a server did not answer. Repeat the call.
	ErrUnavailable = errors.New("waitingroom: store unavailable")
)

// FieldError is an ErrInvalid that a field of a definition or request causes.
type FieldError struct {
	Field string // as in JSON, such as rate_per_min
	Must  string // what would be right, and what was given: "be 0 to 600000, got -1"
}

func (e *FieldError) Error() string { return ErrInvalid.Error() + ": " + e.Field + " must " + e.Must }

// Unwrap returns ErrInvalid.
func (e *FieldError) Unwrap() error { return ErrInvalid }

func invalid(field, must string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(must, args...)}
}

// RejoinError means that the visitor has given up one place after another, and may join again after Wait.
type RejoinError struct{ Wait time.Duration }

// Error implements error.
func (e *RejoinError) Error() string {
	return fmt.Sprintf("waitingroom: too many places were given up: join again in %s", e.Wait.Round(time.Second))
}
