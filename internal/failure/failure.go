// Package failure has the error that all packages of this module return where their caller needs more of an error than its kind.
package failure

import (
	"fmt"
	"strings"
	"time"
)

// An Error is an error of a kind, with what its caller needs apart from each other, so that no code reads its text. errors.Is
// finds its kind and its cause.
type Error struct {
	Kind       error         // what it is: a sentinel of the package that returns it
	Field      string        // of the request or definition that is wrong, as the package names it; empty: none
	Detail     string        // for the caller: what was wrong and what is right; it goes on where Field ends
	RetryAfter time.Duration // when repeating makes sense; 0: unknown
	Cause      error         // for logs, not for callers; nil: none
}

// New returns an Error of a kind.
func New(kind error, format string, args ...any) *Error {
	return At(kind, "", format, args...)
}

// At returns an Error of a kind about a field.
func At(kind error, field, format string, args ...any) *Error {
	return &Error{Kind: kind, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// WithCause sets the cause of e and returns e.
func (e *Error) WithCause(cause error) *Error {
	e.Cause = cause
	return e
}

// Error returns the kind, the field with the detail, and the cause.
func (e *Error) Error() string {
	text := e.Kind.Error()
	if e.Field != "" || e.Detail != "" {
		text += ": " + e.Text()
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Text returns the field and the detail.
func (e *Error) Text() string { return strings.TrimSpace(e.Field + " " + e.Detail) }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}
