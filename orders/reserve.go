package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/failure"
	"github.com/tidegate/tidegate/internal/input"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
	"github.com/tidegate/tidegate/orders/internal/replica"
)

const (
	maxUser   = 255 // characters
	maxKey    = 255
	minSecret = 22 // of a key that identifies its buyer: 128 random bits in base64

	retryCapacity = time.Second // in-flight orders are committed within moments
)

// Attempt is a valid request for an order that is not decided yet. Use it in one goroutine, for one order.
type Attempt struct {
	reserver   *reserver
	cachedItem *cachedItem
	quantity   int
	user       string
	buyer, key string // hashes; key is empty without an Idempotency-Key
}

// reserver decides requests for orders.
type reserver struct {
	*core
	sales      *catalogWatch
	ledger     *ledger
	membership *membership
	reader     *reader
	enqueuer   *enqueuer
	replicas   *replica.Waiter // for reservations that wait for a replica; nil when none does
}

// Place orders units of an item, one if req.Quantity is 0: it prepares, screens and reserves. A refusal is an Outcome too. Its
// errors are those of Prepare and Reserve; after ErrUnavailable or ErrRecovering repeat it, with the same key. A program that
// has to limit its callers uses the steps, and applies its rules between Screen and Reserve.
func (rs *reserver) Place(ctx context.Context, req Request) (Outcome, error) {
	if req.Quantity == 0 {
		req.Quantity = 1
	}
	a, err := rs.Prepare(req)
	if err != nil {
		return Outcome{}, err
	}
	if out, decided := a.Screen(); decided {
		return out, nil
	}
	return a.Reserve(ctx)
}

// Prepare checks a request without any I/O. It returns ErrInvalid, ErrUnknownSale, ErrUnknownItem, ErrUserRequired,
// ErrKeyRequired, or ErrUnavailable until the sales are first loaded.
func (rs *reserver) Prepare(req Request) (*Attempt, error) {
	sale, err := rs.sales.listing(req.Sale)
	if err != nil {
		return nil, err
	}
	ci, ok := sale.cached[req.Item]
	if !ok {
		return nil, ErrUnknownItem
	}
	if req.Quantity < 1 || req.Quantity > MaxQuota {
		return nil, failure.At(ErrInvalid, "Quantity", "is %d, and must be from 1 to %d", req.Quantity, MaxQuota)
	}
	if err := printable("Key", req.Key, maxKey); err != nil {
		return nil, err
	}
	if err := printable("User", req.User, maxUser); err != nil {
		return nil, err
	}
	a := &Attempt{reserver: rs, cachedItem: ci, quantity: req.Quantity, user: req.User}
	if req.Key != "" {
		a.key = sale.hash(hashKey, req.Key)
	}
	switch {
	case req.User != "":
		a.buyer = sale.hash(hashUser, req.User)
		if req.Key == "" && ci.item.QuotaPerBuyer > 1 {
			return nil, ErrKeyRequired
		}
	case sale.RequiresUser:
		return nil, ErrUserRequired
	case req.Key == "":
		return nil, ErrKeyRequired
	default:
		// An anonymous request: only the key distinguishes buyers, and everybody who knows it has the order.
		if n := utf8.RuneCountInString(req.Key); n < minSecret {
			return nil, failure.At(ErrInvalid, "Key", "has %d characters, and without a user must have %d to %d that nobody can guess, "+
				"such as a random UUID: whoever knows the key has the order", n, minSecret, maxKey)
		}
		a.buyer = a.key
	}
	return a, nil
}

// printable returns ErrInvalid unless s is printable and has at most most characters.
func printable(field, s string, most int) error {
	if err := input.Printable(s, most); err != nil {
		return failure.At(ErrInvalid, field, "%v", err)
	}
	return nil
}

// Screen decides from this process's memory, without Redis, if that is certain: with the order that the buyer already has, or
// with a refusal. decided is false when the admission rules, and then Reserve, have to decide.
func (a *Attempt) Screen() (out Outcome, decided bool) {
	if o, what, ok := a.reserver.ledger.held(a.identity()); ok {
		switch {
		case what == committed, what == pending && !(a.reserver.reader.justAccepted(o) && a.promised()):
			return Outcome{}, false
		case o.Quantity != a.quantity:
			return Outcome{Reason: ReasonKeyReused, Order: o}, true
		}
		return Outcome{Order: o, Replayed: true}, true
	}
	now, known := a.reserver.clock.now()
	g := a.cachedItem.snapshot.Load()
	if !known || a.cachedItem.holds(a.buyer) {
		return Outcome{}, false
	}
	reason, wait := refusal(&a.cachedItem.sale.Sale, g, now)
	if reason == "" {
		return Outcome{}, false
	}
	a.reserver.sales.refreshSnapshot(a.cachedItem, g)
	return Outcome{Reason: reason, RetryAfter: wait}, true
}

// Remembered reports whether this process remembers an order that the request repeats. The order may have changed elsewhere.
func (a *Attempt) Remembered() bool {
	_, _, ok := a.reserver.ledger.held(a.identity())
	return ok
}

// Replay returns the order that the request repeats, in its current state, and reserves nothing. found is false if neither this
// process nor Redis has one. Its errors are those of Reserve. It also continues when ctx is cancelled.
func (a *Attempt) Replay(ctx context.Context) (out Outcome, found bool, err error) {
	out, err = a.decide(ctx, modeRepeat)
	return out, err == nil && (out.Replayed || out.Reason == ReasonKeyReused), err
}

// Reserve decides in one script. It returns ErrUnavailable when Redis did not answer in time: the reservation may have
// happened, and repeating it with the same key shows whether it did. ErrRecovering is the same for a sale that is being
// rebuilt. A decision in flight continues when ctx is cancelled.
func (a *Attempt) Reserve(ctx context.Context) (Outcome, error) { return a.decide(ctx, modeNew) }

func (a *Attempt) decide(ctx context.Context, mode reserveMode) (out Outcome, err error) {
	ctx, span := a.trace(ctx, mode)
	defer func() { a.reserver.endReserve(span, &out, err) }()
	rs, ci := a.reserver, a.cachedItem
	if rs.over(&ci.sale.Sale) {
		return Outcome{Reason: ReasonEnded}, nil
	}
	out, ok, err := a.recall(ctx)
	if ok {
		return out, err
	}
	lapsed := errors.Is(err, errLeaseLapsed)
	if lapsed {
		mode = modeRepeat
	}
	if rs.foreign.Load() {
		return Outcome{}, errForeign
	}
	term, ok := rs.membership.lease.Held(time.Now())
	if !ok {
		return Outcome{}, errNoLease
	}
	if !rs.membership.committed() && mode != modeRepeat {
		return Outcome{}, errNoWorker
	}
	generation, err := rs.sales.verified(ctx, ci)
	if err != nil {
		return Outcome{}, err
	}
	if !rs.ledger.acquire() {
		return Outcome{Reason: ReasonAtCapacity, RetryAfter: retryCapacity}, nil
	}
	began := time.Now()
	at, _ := rs.clock.now()
	c := &reserveCall{
		a: a, mode: mode, generation: generation, term: term, deadline: began.Add(rs.opts.Timeout),
		from: trace.SpanContextFromContext(ctx),
		r: Reservation{
			ID: rs.sales.catalog.Load().ids.newID(at, ci.item.Number), Epoch: ci.sale.Epoch, Sale: ci.sale.ID, Item: ci.item.ID,
			Buyer: a.user, BuyerHash: a.buyer, KeyHash: a.key, Quantity: a.quantity,
		},
	}
	if until, ok := ctx.Deadline(); ok && until.Before(c.deadline) {
		c.deadline = until
	}
	d, err := rs.reserve(ctx, c)
	rs.opts.Measures.Reserved(time.Since(began))
	switch {
	case err != nil:
		return Outcome{}, err
	case d.held != "":
		return a.replay(ctx, d.held)
	case lapsed && d.out.Reason == "" && !d.out.Replayed: // Redis does not have it; it is about to be handed over
		return Outcome{}, errLeaseLapsed
	}
	failpoint.Hit(failpoint.BeforeAnswer)
	if !d.out.Replayed {
		return d.out, nil
	}
	o, err := rs.reader.newest(ctx, d.out.Order)
	if err != nil {
		return Outcome{}, err
	}
	return a.replayed(o)
}

// recall returns an order that this process remembers, in its state in the database. An order that the database does not have
// is returned from memory only during the lease in which it was accepted. Later, recall returns errLeaseLapsed, and Redis has
// to be asked whether it still has the order: the sale may have been recovered without this process, and another process may
// have given the buyer another order.
func (a *Attempt) recall(ctx context.Context) (out Outcome, ok bool, err error) {
	o, what, known := a.reserver.ledger.held(a.identity())
	if !known || o.Quantity != a.quantity {
		return Outcome{}, false, nil
	}
	switch stored, err := a.reserver.reader.stored(ctx, o.ID); {
	case err == nil && (stored.Status.OwnsUnits() || a.key != ""): // otherwise Redis decides whether the buyer may order again
		out, err = a.replayed(stored)
		return out, true, err
	case errors.Is(err, ErrUnknownOrder) && what == pending:
		if !a.promised() {
			return Outcome{}, false, errLeaseLapsed
		}
		return Outcome{Order: o, Replayed: true}, true, nil
	}
	return Outcome{}, false, nil
}

// promised reports whether the pending order that the request repeats was accepted in the lease that the process holds now.
func (a *Attempt) promised() bool {
	term, ok := a.reserver.membership.lease.Held(time.Now())
	return ok && a.reserver.ledger.promised(a.identity(), term)
}

func (a *Attempt) identity() identity {
	return identity{item: a.cachedItem.item.Number, buyer: a.buyer, key: a.key}
}

// decodeRefusal decodes the rest of a refusal.
func (a *Attempt) decodeRefusal(word string, free int, d *decoder) (Outcome, error) {
	out := Outcome{Reason: Reason(word)}
	switch out.Reason {
	case ReasonKeyReused, ReasonQuotaPerBuyer:
		if out.Reason == ReasonQuotaPerBuyer {
			out.Quota = a.cachedItem.item.QuotaPerBuyer
		}
		// A buyer who asks for more than the quota at once holds none yet.
		if id := d.string(); id != "" {
			var err error
			if out.Order.ID, err = ParseID(id); err != nil {
				return Outcome{}, fmt.Errorf("%w: %s names order %.40q", ErrUnavailable, word, id)
			}
		}
	case ReasonNotStarted:
		if starts := d.int64(); starts > 0 {
			now, _ := a.reserver.clock.now()
			out.RetryAfter = time.UnixMilli(starts).Sub(now)
		}
	case ReasonAtCapacity:
		out.RetryAfter = retryCapacity
	case ReasonNotEnough:
		out.Free = free
	case ReasonSoldOut, ReasonPaused, ReasonEnded:
	case ReasonTurnRequired:
		out.Room = a.cachedItem.item.Room
	default:
		return Outcome{}, fmt.Errorf("%w: reserve replied %.40q", ErrUnavailable, word)
	}
	switch out.Reason {
	case ReasonNotStarted, ReasonSoldOut, ReasonPaused, ReasonEnded:
		a.reserver.sales.refreshSnapshot(a.cachedItem, nil) // so that the next ones are refused from memory
	}
	return out, d.err
}

// replay answers with the committed order that holds the identity.
func (a *Attempt) replay(ctx context.Context, held string) (Outcome, error) {
	id, err := ParseID(held)
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: held order %.40q", ErrUnavailable, held)
	}
	o, err := a.reserver.reader.stored(ctx, id)
	if errors.Is(err, ErrUnknownOrder) {
		a.reserver.opts.Logger.ErrorContext(ctx, "the database does not have an order that Redis calls committed", slog.String("order_id", a.reserver.Shown(id, a.user).String()))
		return Outcome{}, fmt.Errorf("%w: the order is nowhere", ErrUnavailable)
	} else if err != nil {
		return Outcome{}, err
	}
	return a.replayed(o)
}

// replayed returns an order in its current state.
func (a *Attempt) replayed(o Order) (Outcome, error) {
	a.reserver.ledger.learn(a.identity(), o)
	if !o.Status.OwnsUnits() && a.key == "" {
		return Outcome{}, fmt.Errorf("%w: order %s has ended, and its buyer is about to be free to order again", ErrUnavailable, o.ID)
	}
	return Outcome{Order: o, Replayed: true}, nil
}
