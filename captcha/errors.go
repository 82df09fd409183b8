package captcha

import (
	"errors"
	"fmt"
)

var (
	// ErrRefused means that the token is not a valid solution for this binding. It is wrapped in a *RefusedError.
	ErrRefused = errors.New("captcha: refused")
	// ErrUnavailable means that the token could not be verified. The caller may retry, and must not be admitted.
	ErrUnavailable = errors.New("captcha: unavailable")
	// ErrProvider is an ErrUnavailable caused by the provider, or by its settings, and not by the store.
	ErrProvider = fmt.Errorf("%w: the provider", ErrUnavailable)
	// ErrFellBack is an ErrUnavailable where a retry does not help: the provider of the token is unavailable, and new challenges come
	// from its substitute.
	ErrFellBack = fmt.Errorf("%w: the provider is unavailable and was replaced", ErrUnavailable)
	// ErrInvalidBinding means that a field of a Binding is invalid.
	ErrInvalidBinding = errors.New("captcha: invalid binding")
)

// Cause is why a token was refused. It is a closed set; the same word is used in JSON, metrics and logs.
type Cause string

const (
	CauseMalformed Cause = "malformed" // it is not a token of the provider
	CauseWrong     Cause = "wrong"     // it does not solve a challenge of this installation
	CauseExpired   Cause = "expired"   // its challenge is too old
	CauseForeign   Cause = "foreign"   // its challenge was made for another purpose, subject or site, or for a lower risk
	CauseUsed      Cause = "used"      // it has been used already
)

// causes in the order of their index in counters.
var causes = [...]Cause{CauseMalformed, CauseWrong, CauseExpired, CauseForeign, CauseUsed}

// A RefusedError is an ErrRefused with its cause.
type RefusedError struct{ Cause Cause }

// Error implements error.
func (e *RefusedError) Error() string { return ErrRefused.Error() + ": " + string(e.Cause) }

// Unwrap returns ErrRefused.
func (e *RefusedError) Unwrap() error { return ErrRefused }

func refused(c Cause) error { return &RefusedError{c} }
