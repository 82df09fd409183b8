package admission

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable means that no decision could be made: the store failed or did not answer in time, and a matching rule is
	// `on_store_error: closed`. It wraps the store's error too.
	ErrUnavailable = errors.New("admission: store unavailable")

	// ErrUnknownRequest means that no charge with this subject and ID is remembered.
	ErrUnknownRequest = errors.New("admission: unknown request")

	// ErrUnknownRule means that the rules in force have no rule of this name.
	ErrUnknownRule = errors.New("admission: unknown rule")

	// ErrInvalidRequest means that a Request has an invalid value; the text names the field.
	ErrInvalidRequest = errors.New("admission: invalid request")
)

// errResting is the cause while the breaker is open and the store is not asked.
var errResting = errors.New("it has not answered lately")

// A RulesError is an error at one place of a rules file. Its text begins with file:line:column, which editors recognize, and ends with
// what would be right. ParseRules returns it wrapped: use errors.As.
type RulesError struct {
	File         string
	Line, Column int // from 1; 0 if the error concerns the whole file
	Problem      string
}

func (e *RulesError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Problem)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}
