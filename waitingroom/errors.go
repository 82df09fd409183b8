package waitingroom

import (
	"errors"

	"github.com/tidegate/tidegate/internal/failure"
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
	// ErrRejoin: the visitor has given up one place after another, and may join again later.
	ErrRejoin = errors.New("waitingroom: too many places were given up")
	// ErrConflict: the change is not possible in the room's state, or its request id belongs to another change.
	ErrConflict = errors.New("waitingroom: conflict")
	// ErrInvalid: a definition or request is invalid; the message says what is and what would be right.
	ErrInvalid = errors.New("waitingroom: invalid")
	// ErrUnavailable: a server did not answer. Repeat the call.
	ErrUnavailable = errors.New("waitingroom: store unavailable")
)

// Error is an error whose caller needs more than its kind: errors.AsType[*waitingroom.Error] finds it. Of an ErrInvalid, Field is as in JSON, such as
// rate_per_min; ErrRejoin has RetryAfter.
type Error = failure.Error

func invalid(field, must string, args ...any) error {
	return failure.At(ErrInvalid, field, "must "+must, args...)
}
