package bans

import (
	"errors"
)

var (
	// ErrUnavailable means that the store failed or did not answer in time. It wraps the store's error too.
	ErrUnavailable = errors.New("bans: store unavailable")

	// ErrFull means that Max bans are in force: the ban was not made, and is not until others end or are lifted.
	ErrFull = errors.New("bans: too many are in force")

	// ErrRefused means that the target of a ban is on the allowlist, or is this machine.
	ErrRefused = errors.New("bans: ban refused")

	// ErrInvalid means that a target or an order has an invalid value; the text names it.
	ErrInvalid = errors.New("bans: invalid request")
)
