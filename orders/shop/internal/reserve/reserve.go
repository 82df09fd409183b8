// Package reserve decides requests for orders: from memory if that is certain, otherwise with reserve.lua, many in one round trip.
package reserve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
	"github.com/tidegate/tidegate/orders/shop/internal/members"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
	"github.com/tidegate/tidegate/orders/shop/internal/reading"
	"github.com/tidegate/tidegate/orders/shop/internal/replica"
)

const (
	minSecret = 22 // characters of a key that identifies its buyer: 128 random bits in base64

	retryCapacity = time.Second // in-flight orders are committed within moments
)

// Attempt is a valid request for an order that is not decided yet. Use it in one goroutine, for one order.
type Attempt struct {
	reserver   *Reserver
	cachedItem *catalog.Item
	wanted     orders.Reservation // without id and epoch; KeyHash is empty without an Idempotency-Key
}

// Reserver decides requests for orders.
type Reserver struct {
	*core.Core
	sales      *catalog.Watch
	ledger     *ledger.Ledger
	membership *members.Membership
	reader     *reading.Reader
	enqueuer   *queue.Enqueuer
	replicas   *replica.Waiter // for reservations that wait for a replica; nil when none does
	scripts    atomic.Int32    // reserve scripts under way
}

// New returns the part. replicas is nil unless reservations have to be in a replica.
func New(
	c *core.Core, sales *catalog.Watch, l *ledger.Ledger, membership *members.Membership, reader *reading.Reader, enqueuer *queue.Enqueuer,
	replicas *replica.Waiter,
) *Reserver {
	return &Reserver{Core: c, sales: sales, ledger: l, membership: membership, reader: reader, enqueuer: enqueuer, replicas: replicas}
}

func (rs *Reserver) Place(ctx context.Context, req orders.Request) (orders.Outcome, error) {
	if req.Quantity == 0 {
		req.Quantity = 1
	}
	a, err := rs.Prepare(req)
	if err != nil {
		return orders.Outcome{}, err
	}
	if out, decided := a.Screen(); decided {
		return out, nil
	}
	return a.Reserve(ctx)
}

func (rs *Reserver) Prepare(req orders.Request) (*Attempt, error) {
	sale, err := rs.sales.Listing(req.Sale)
	if err != nil {
		return nil, err
	}
	ci, ok := sale.Cached[req.Item]
	if !ok {
		return nil, orders.ErrUnknownItem
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	a := &Attempt{reserver: rs, cachedItem: ci, wanted: req.Reservation()}
	if req.Key != "" {
		a.wanted.KeyHash = core.HashOf(sale.Salt, core.HashKey, req.Key)
	}
	switch {
	case req.User != "":
		a.wanted.BuyerHash = core.HashOf(sale.Salt, core.HashUser, req.User)
		if req.Key == "" && ci.Item.QuotaPerBuyer > 1 {
			return nil, orders.ErrKeyRequired
		}
	case sale.RequiresUser:
		return nil, orders.ErrUserRequired
	case req.Key == "":
		return nil, orders.ErrKeyRequired
	default:
		// An anonymous request: only the key distinguishes buyers, and whoever has it has the order.
		if n := utf8.RuneCountInString(req.Key); n < minSecret {
			return nil, failure.At(orders.ErrInvalid, "Key", "has %d characters, and without a user must have %d to %d that cannot be guessed, "+
				"such as a random UUID: whoever has the key has the order", n, minSecret, orders.MaxKey)
		}
		a.wanted.BuyerHash = a.wanted.KeyHash
	}
	return a, nil
}

// Screen decides from this process's memory, without Redis, if that is certain: with the order that the buyer already has, or
// with a refusal. decided is false when the admission rules, and then Reserve, have to decide.
func (a *Attempt) Screen() (out orders.Outcome, decided bool) {
	if o, what, ok := a.reserver.ledger.Held(a.identity()); ok {
		switch {
		case what == ledger.Committed, what == ledger.Pending && !(a.reserver.reader.JustAccepted(o) && a.promised()):
			return orders.Outcome{}, false
		case o.Quantity != a.wanted.Quantity:
			return orders.Outcome{Reason: orders.ReasonKeyReused, Order: o}, true
		}
		return orders.Outcome{Order: o, Replayed: true}, true
	}
	now, known := a.reserver.Clock.Now()
	g := a.cachedItem.Snapshot.Load()
	if !known || a.cachedItem.Holds(a.wanted.BuyerHash) {
		return orders.Outcome{}, false
	}
	reason, wait := catalog.Refusal(&a.cachedItem.Sale.Sale, g, now)
	if reason == "" {
		return orders.Outcome{}, false
	}
	a.reserver.sales.RefreshSnapshot(a.cachedItem, g)
	return orders.Outcome{Reason: reason, RetryAfter: wait}, true
}

// Remembered reports whether this process remembers an order that the request repeats. The order may have changed elsewhere.
func (a *Attempt) Remembered() bool {
	_, _, ok := a.reserver.ledger.Held(a.identity())
	return ok
}

// Replay returns the order that the request repeats, in its current state, and reserves nothing. found is false if neither this
// process nor Redis has one. Its errors are those of Reserve. It also continues when ctx is cancelled.
func (a *Attempt) Replay(ctx context.Context) (out orders.Outcome, found bool, err error) {
	out, err = a.decide(ctx, modeRepeat)
	return out, err == nil && (out.Replayed || out.Reason == orders.ReasonKeyReused), err
}

// Reserve decides in one script. It returns ErrUnavailable when Redis did not answer in time: the reservation may have
// happened, and repeating it with the same key shows whether it did. ErrRecovering is the same for a sale that is being
// rebuilt. A decision in flight continues when ctx is cancelled.
func (a *Attempt) Reserve(ctx context.Context) (orders.Outcome, error) { return a.decide(ctx, ModeNew) }

func (a *Attempt) decide(ctx context.Context, mode Mode) (out orders.Outcome, err error) {
	ctx, span := a.trace(ctx, mode)
	defer func() { a.reserver.endReserve(span, &out, err) }()
	rs, ci := a.reserver, a.cachedItem
	if rs.Over(&ci.Sale.Sale) {
		return orders.Outcome{Reason: orders.ReasonEnded}, nil
	}
	out, ok, err := a.recall(ctx)
	if ok {
		return out, err
	}
	lapsed := errors.Is(err, core.ErrLeaseLapsed)
	if lapsed {
		mode = modeRepeat
	}
	if rs.Foreign.Load() {
		return orders.Outcome{}, core.ErrForeign
	}
	term, ok := rs.membership.Lease.Held(time.Now())
	if !ok {
		return orders.Outcome{}, core.ErrNoLease
	}
	if !rs.membership.Committed() && mode != modeRepeat {
		return orders.Outcome{}, core.ErrNoWorker
	}
	generation, err := rs.sales.Verified(ctx, ci)
	if err != nil {
		return orders.Outcome{}, err
	}
	if !rs.ledger.Acquire() {
		return orders.Outcome{Reason: orders.ReasonAtCapacity, RetryAfter: retryCapacity}, nil
	}
	began := time.Now()
	at, _ := rs.Clock.Now()
	c := &reserveCall{
		a: a, mode: mode, generation: generation, term: term, deadline: began.Add(rs.Timeout),
		from: trace.SpanContextFromContext(ctx),
		r:    a.wanted,
	}
	c.r.ID, c.r.Epoch = rs.sales.Catalog.Load().IDs.New(at, ci.Item.Number), ci.Sale.Epoch
	if until, ok := ctx.Deadline(); ok && until.Before(c.deadline) {
		c.deadline = until
	}
	d, err := rs.reserve(ctx, c)
	rs.Measures.Reserved(time.Since(began))
	switch {
	case err != nil:
		return orders.Outcome{}, err
	case d.Held != (orders.ID{}):
		return a.replay(ctx, d.Held)
	case lapsed && d.Out.Reason == "" && !d.Out.Replayed: // Redis does not have it; it is about to be handed over
		return orders.Outcome{}, core.ErrLeaseLapsed
	}
	failpoint.Hit(failpoint.BeforeAnswer)
	if !d.Out.Replayed {
		return d.Out, nil
	}
	o, err := rs.reader.Newest(ctx, d.Out.Order)
	if err != nil {
		return orders.Outcome{}, err
	}
	return a.replayed(o)
}

// recall returns an order that this process remembers, in its state in the database. An order that the database does not have
// is returned from memory only during the lease in which it was accepted. Later, recall returns errLeaseLapsed, and Redis has
// to be asked whether it still has the order: the sale may have been recovered without this process, and another process may
// have given the buyer another order.
func (a *Attempt) recall(ctx context.Context) (out orders.Outcome, ok bool, err error) {
	o, what, known := a.reserver.ledger.Held(a.identity())
	if !known || o.Quantity != a.wanted.Quantity {
		return orders.Outcome{}, false, nil
	}
	switch stored, err := a.reserver.reader.Stored(ctx, o.ID); {
	case err == nil && (stored.Status.OwnsUnits() || a.wanted.KeyHash != ""): // otherwise Redis decides whether the buyer may order again
		out, err = a.replayed(stored)
		return out, true, err
	case errors.Is(err, orders.ErrUnknownOrder) && what == ledger.Pending:
		if !a.promised() {
			return orders.Outcome{}, false, core.ErrLeaseLapsed
		}
		return orders.Outcome{Order: o, Replayed: true}, true, nil
	}
	return orders.Outcome{}, false, nil
}

// promised reports whether the pending order that the request repeats was accepted in the lease that the process holds now.
func (a *Attempt) promised() bool {
	term, ok := a.reserver.membership.Lease.Held(time.Now())
	return ok && a.reserver.ledger.Promised(a.identity(), term)
}

func (a *Attempt) identity() ledger.Identity {
	return ledger.Identity{Item: a.cachedItem.Item.Number, Buyer: a.wanted.BuyerHash, Key: a.wanted.KeyHash}
}

// decodeRefusal decodes the rest of a refusal. Most reasons have none.
func (a *Attempt) decodeRefusal(d *Reply) (orders.Outcome, error) {
	out := orders.Outcome{Reason: orders.Reason(d.Word)}
	if !slices.Contains(orders.Refusals, out.Reason) {
		return orders.Outcome{}, fmt.Errorf("%w: reserve replied %.40q", orders.ErrUnavailable, d.Word)
	}
	switch out.Reason {
	case orders.ReasonKeyReused, orders.ReasonQuotaPerBuyer:
		if out.Reason == orders.ReasonQuotaPerBuyer {
			out.Quota = a.cachedItem.Item.QuotaPerBuyer
		}
		// A buyer who asks for more than the quota at once holds none yet.
		if id := d.Text(); id != "" {
			var err error
			if out.Order.ID, err = orders.ParseID(id); err != nil {
				return orders.Outcome{}, fmt.Errorf("%w: %s names an order that has no id", orders.ErrUnavailable, d.Word)
			}
		}
	case orders.ReasonNotStarted:
		if starts := d.Int(); starts > 0 {
			now, _ := a.reserver.Clock.Now()
			out.RetryAfter = time.UnixMilli(starts).Sub(now)
		}
	case orders.ReasonAtCapacity:
		out.RetryAfter = retryCapacity
	case orders.ReasonNotEnough:
		out.Free = d.Free
	case orders.ReasonTurnRequired:
		out.Room = a.cachedItem.Item.Room
	}
	switch out.Reason {
	case orders.ReasonNotStarted, orders.ReasonSoldOut, orders.ReasonPaused, orders.ReasonEnded:
		a.reserver.sales.RefreshSnapshot(a.cachedItem, nil) // so that the next ones are refused from memory
	}
	return out, core.Unavailable(d.Err())
}

// replay answers with the committed order that holds the identity.
func (a *Attempt) replay(ctx context.Context, id orders.ID) (orders.Outcome, error) {
	o, err := a.reserver.reader.Stored(ctx, id)
	if errors.Is(err, orders.ErrUnknownOrder) {
		a.reserver.Logger.ErrorContext(ctx, "the database does not have an order that Redis calls committed",
			slog.String("order_id", a.reserver.Shown(id, a.wanted.Buyer).String()))
		return orders.Outcome{}, fmt.Errorf("%w: the order is nowhere", orders.ErrUnavailable)
	} else if err != nil {
		return orders.Outcome{}, err
	}
	return a.replayed(o)
}

// replayed returns an order in its current state.
func (a *Attempt) replayed(o orders.Order) (orders.Outcome, error) {
	a.reserver.ledger.Learn(a.identity(), o)
	if !o.Status.OwnsUnits() && a.wanted.KeyHash == "" {
		return orders.Outcome{}, fmt.Errorf("%w: the order has ended, and its buyer is about to be free to order again", orders.ErrUnavailable)
	}
	return orders.Outcome{Order: o, Replayed: true}, nil
}
