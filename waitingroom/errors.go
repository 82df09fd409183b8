package waitingroom

import (
	"errors"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/waitingroom/internal/store"
)

// What the methods of Service return, wrapped, if they could not decide or the request is wrong. A Refusal is no error.
var (
	// ErrUnknownRoom: there is no room of that name.
	ErrUnknownRoom = store.ErrUnknownRoom
	// ErrNotJoined: the visitor has no place in the room.
	ErrNotJoined = errors.New("waitingroom: no place in this room")
	// ErrUserRequired: the room takes known users only.
	ErrUserRequired = errors.New("waitingroom: the room takes known users only")
	// ErrConflict: the change is not possible in the room's state, or its request id belongs to another change.
	ErrConflict = errors.New("waitingroom: conflict")
	// ErrInvalid: a definition or request is invalid; the message states what is wrong and what would be right.
	ErrInvalid = errors.New("waitingroom: invalid")
	// ErrUnavailable: a server did not answer. Repeat the call.
	ErrUnavailable = store.ErrUnavailable
)

// Error is an error whose caller needs more than its kind: errors.AsType[*waitingroom.Error] finds it. Of an ErrInvalid, Field is
// as in JSON, such as rate_per_min.
type Error = failure.Error

func invalid(field, must string, args ...any) error {
	return failure.At(ErrInvalid, field, "must "+must, args...)
}
