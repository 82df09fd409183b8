package captcha

import (
	"errors"
	"fmt"
)

var (
	// ErrRefused says that the token is no solution, or not of this, or not any more. It is wrapped in a *RefusedError.
	ErrRefused = errors.New("captcha: refused")
	// ErrUnavailable says that whether the token is a solution could not be found out. The caller may try again, and must not be let in.
	ErrUnavailable = errors.New("captcha: unavailable")
	// ErrProvider is an ErrUnavailable by the fault of the provider, or of the settings for it, and not of the store.
	ErrProvider = fmt.Errorf("%w: the provider", ErrUnavailable)
	// ErrFellBack is an ErrUnavailable that trying again does not help: the provider of the token is away, and
	// a new challenge is one of its substitute.
	ErrFellBack = fmt.Errorf("%w: the provider is away, and another stands in", ErrUnavailable)
	// ErrInvalidBinding says that a Binding is not as its fields' comments want it.
	ErrInvalidBinding = errors.New("captcha: invalid binding")
)

// Cause is why a token was refused. Closed set; the same word stands in JSON, metrics and logs.
type Cause string

const (
	CauseMalformed Cause = "malformed" // it is no token of the provider
	CauseWrong     Cause = "wrong"     // it solves no challenge of ours
	CauseExpired   Cause = "expired"   // its challenge is too old
	CauseForeign   Cause = "foreign"   // its challenge was made for another purpose, subject or site, or for a lower risk
	CauseUsed      Cause = "used"      // it was good once
)

// causes in the order of their numbers in counters.
var causes = [...]Cause{CauseMalformed, CauseWrong, CauseExpired, CauseForeign, CauseUsed}

// A RefusedError says why a token was refused.
type RefusedError struct{ Cause Cause }

// Error implements error.
func (e *RefusedError) Error() string { return ErrRefused.Error() + ": " + string(e.Cause) }

// Unwrap makes it an ErrRefused.
func (e *RefusedError) Unwrap() error { return ErrRefused }

func refused(c Cause) error { return &RefusedError{c} }
