package auth

import (
	"errors"
	"fmt"
	"time"
)

// ErrUnauthenticated is the error for missing or invalid credentials.
var ErrUnauthenticated = errors.New("auth: unauthenticated")

// A ForbiddenError refuses a caller whose credentials are valid or not needed.
type ForbiddenError struct {
	Detail string // meant for the caller
}

func (e *ForbiddenError) Error() string { return "auth: forbidden: " + e.Detail }

// A ThrottledError refuses an address that has sent too many wrong tokens.
type ThrottledError struct {
	Wait time.Duration // until the next token is accepted
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("auth: too many wrong tokens, wait %v", e.Wait)
}
