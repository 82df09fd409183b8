package login

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is wrapped by errors about what the caller sent; they say what would be right.
	ErrInvalid = errors.New("login: invalid")
	// ErrUnknownAttempt means that an attempt's id was not given out here.
	ErrUnknownAttempt = errors.New("login: unknown attempt")
	// ErrSettled means that the attempt has another outcome already.
	ErrSettled = errors.New("login: the attempt has another outcome")
	// ErrLate is an ErrSettled: nobody said in time how the attempt ended.
	ErrLate = fmt.Errorf("%w: it was not settled within %v and counts as failed", ErrSettled, micros(settleWithin))
	// ErrUnavailable means that the store, or the CAPTCHA, could not be asked. Whether anything was counted is unknown.
	ErrUnavailable = errors.New("login: unavailable")
)
