package admission

import "errors"

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
