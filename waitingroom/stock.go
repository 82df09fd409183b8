package waitingroom

import (
	"context"
	"time"
)

// Stock is what a room asks of the sale that it belongs to. It identifies buyers by their user names. Its methods are idempotent. An
// error means that the sale cannot tell now, and nothing moves until it can.
type Stock interface {
	// Quota returns how many units of an item a user may order.
	Quota(ctx context.Context, sale, item string) (int, error)
	// Guard makes orders of the item need a turn of the room. It is an error if the item has another room. Unguard ends it, unless the item
	// has another room.
	Guard(ctx context.Context, sale, item, room string) error
	Unguard(ctx context.Context, sale, item, room string) error
	// Admit lets a user, who was admitted at since, order up to quantity units within the time, once. It gives nothing after Revoke with the
	// same since.
	Admit(ctx context.Context, sale, item, room, user string, since time.Time, quantity int, within time.Duration) error
	// Revoke takes that back for good, also from an Admit that is still under way, and reports whether it has been used.
	Revoke(ctx context.Context, sale, item, room, user string, since time.Time) (used bool, err error)
	// Look returns the free units of an item, whether no more will be added, how long accepted orders wait for their commit, and for each
	// user, who was admitted at since, the order for which the admission was used, Revoked, or "": all read in one step. It is an error if
	// orders of the item do not need a turn of the room.
	Look(ctx context.Context, sale, item, room string, users []string, since []time.Time) (free int, final bool, lag time.Duration, used []string, err error)
	// Unsettled reports whether units are held by orders that are not paid.
	Unsettled(ctx context.Context, sale, item string) (bool, error)
}

// Revoked is what Stock.Look returns in place of an order, for an admission that Revoke has taken back.
const Revoked = "revoked"
