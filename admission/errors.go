package admission

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable means that no decision could be made because the store did not answer in time or failed, and that a
	// matching rule is `on_store_error: closed`. The store's own error is wrapped beside it.
	ErrUnavailable = errors.New("admission: store unavailable")

	// ErrFull means that a store already keeps MaxBans bans in force. It is returned only inside ErrUnavailable.
	ErrFull = errors.New("admission: list of bans is full")

	// ErrUnknownRequest means that no charge with this subject and ID is remembered.
	ErrUnknownRequest = errors.New("admission: unknown request")

	// ErrBanRefused means that the target of a ban is on a list that the rules never ban, or is this machine.
	ErrBanRefused = errors.New("admission: ban refused")

	// ErrUnknownRule means that the rules in force have no rule of this name.
	ErrUnknownRule = errors.New("admission: unknown rule")

	// ErrInvalidRequest means that a Request cannot be decided, or a ban not be ordered, as it stands; the text names the field.
	ErrInvalidRequest = errors.New("admission: invalid request")
)

// errResting stands for the store's own error while nobody asks it, see breaker.
var errResting = errors.New("it has not answered lately")

// A RulesError is one place of a rules file that is wrong. Its text begins with file:line:column, which editors follow,
// and ends with what would be right. ParseRules returns it wrapped: take it out with errors.As.
type RulesError struct {
	File         string
	Line, Column int // from 1; 0 when the place is the file as a whole
	Problem      string
}

func (e *RulesError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Problem)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}
