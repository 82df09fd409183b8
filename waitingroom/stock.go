package waitingroom

import (
	"context"
	"time"

	"github.com/tidegate/tidegate/internal/stock"
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
	// Look returns what is left of an item, and what became of users who were admitted at since: all read in one step. It is an
	// error if orders of the item do not need a turn of the room.
	Look(ctx context.Context, sale, item, room string, users []string, since []time.Time) (Supply, error)
	// Unsettled reports whether units are held by orders that are not paid.
	Unsettled(ctx context.Context, sale, item string) (bool, error)
}

// Supply is what Stock.Look returns.
type Supply = stock.Supply

// SaleState is why a sale takes no orders.
type SaleState = stock.SaleState

// The states of a sale. Its rooms stand still while it is paused or has not started, and end with it.
const (
	SaleOpen       = stock.Open
	SalePaused     = stock.Paused
	SaleNotStarted = stock.NotStarted // or is a draft
	SaleEnded      = stock.Ended      // over, or closed
)

// Revoked is what Stock.Look returns in place of an order, for an admission that Revoke has taken back.
const Revoked = stock.Revoked

// saleMessages are the messages to visitors in a room, by the state of its sale.
var saleMessages = map[SaleState]string{
	SalePaused: "The sale is paused.", SaleNotStarted: "The sale has not started yet.", SaleEnded: "The sale is over.",
}
