// Package dialects gives the fronts for clients of other products, which are the packages below it, operations of the core that only they
// need. The public packages do not export these operations: each sets its variable here when it is initialized.
package dialects

import (
	"context"
	"time"
)

// Counting are operations of a gate.
type Counting[Request any] interface {
	// Add counts req in every matching rule even where it does not fit, for a business operation that has already taken place. With a
	// Check before the operation and an Add after it, concurrent requests can pass the Check in between; Charge checks and counts
	// atomically. Direct rules and the ID are ignored. While the store is unavailable only rules with `on_store_error: local` count. The
	// error is ErrUnavailable if a matching rule is `closed`, or ErrInvalidRequest.
	Add(ctx context.Context, req Request) error
	// Erase removes the newest units from the sliding logs of some rules for the subject of req. units is the number of units by name of
	// the rule; only rules that match req are changed. Windows other than sliding logs stay. The error is ErrUnknownRule, ErrUnavailable
	// or ErrInvalidRequest.
	Erase(ctx context.Context, req Request, units map[string]int) error
}

// CountingOf returns the Counting[admission.Request] of an *admission.Gate.
var CountingOf func(gate any) any

// Places are operations of waiting rooms.
type Places[Visitor, Place any] interface {
	// ByToken returns a visitor who has the place of token, and no other place: there is none unless the room gave the token. If it gave
	// the token to a user, this must be user, unless anyUser is set: the caller then answers for those who have the token. The room needs
	// no user.
	ByToken(token, user string, anyUser bool) Visitor
	// StableToken returns the token of a place without what its visitor has seen: it is the same at all times. Empty: the place has no
	// token.
	StableToken(p Place) string
	// Tokens returns the tokens of an admitted visitor. They are signed as passes are, and the access token is one. Nothing accepts the
	// other two. Repeated, they are the same, like a pass. An empty issuer is that of passes, and the only one that VerifyPass accepts.
	// lifetime counts from the admission on; 0, or longer than the pass: as long as the pass.
	Tokens(p Place, issuer string, lifetime time.Duration) (Tokens, error)
	// Active returns how many admitted places of a room can still use their pass: those that count towards its capacity.
	Active(ctx context.Context, room string) (int64, error)
	// Expired returns the places whose pass has expired, whatever became of it, up to limit of them with the highest numbers first. They
	// have their tokens.
	Expired(ctx context.Context, room string, limit int) ([]Place, error)
}

// Tokens are three JWS in the form of AWS Virtual Waiting Room, which differ in the claim token_use and the header typ only.
type Tokens struct {
	Access, Refresh, ID string
	Until               time.Time // when they expire
}

// PlacesOf returns the Places[waitingroom.Visitor, waitingroom.Place] of a *waitingroom.Service.
var PlacesOf func(service any) any
