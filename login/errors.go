package login

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is wrapped by errors about invalid arguments; the text states what would be right.
	ErrInvalid = errors.New("login: invalid")
	// ErrUnknownAttempt means that the attempt's id is not valid.
	ErrUnknownAttempt = errors.New("login: unknown attempt")
	// ErrSettled means that the attempt has already been settled with another result.
	ErrSettled = errors.New("login: the attempt has a different outcome")
	// ErrLate is an ErrSettled: the attempt was not settled in time and has failed.
	ErrLate = fmt.Errorf("%w: it came too late", ErrSettled)
	// ErrUnavailable means that the store, or the CAPTCHA, did not answer. Whether anything was counted is unknown.
	ErrUnavailable = errors.New("login: unavailable")
)
