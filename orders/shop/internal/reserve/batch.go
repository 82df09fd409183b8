package reserve

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

// reserveCall is an order on its way through reserve.lua.
type reserveCall struct {
	a          *Attempt
	mode       Mode
	r          orders.Reservation
	generation int64             // of the Redis that was verified
	term       int64             // of the lease
	deadline   time.Time         // after it no caller waits any more
	from       trace.SpanContext // of the request
}

// reserve returns when the order is decided, or ErrUnavailable at its deadline. An order in a script is still decided then.
func (rs *Reserver) reserve(ctx context.Context, c *reserveCall) (catalog.Decision, error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), c.deadline)
	defer cancel()
	batches := c.a.cachedItem.Reserving
	if c.mode == modeRepeat {
		batches = c.a.cachedItem.Repeating
	}
	d, err := batches.Do(ctx, c)
	if errors.Is(err, batch.ErrNotRun) {
		rs.ledger.Release()
	}
	return d, core.Unavailable(err)
}

// Run runs the script for a batch and records the results, also for callers that no longer wait. It releases the room of orders
// that the ledger does not have.
func (c *reserveCall) Run(ctx context.Context, batched []*batch.Call[catalog.Request, catalog.Decision]) {
	rs, calls := c.a.reserver, make([]*reserveCall, len(batched))
	for i := range batched {
		calls[i] = batched[i].In.(*reserveCall)
	}
	list := make([]orders.Reservation, len(calls))
	var deadline time.Time // the latest of the batch
	for i, call := range calls {
		list[i] = call.r
		if call.deadline.After(deadline) {
			deadline = call.deadline
		}
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	replies, err := rs.RunReserve(ctx, c.a.cachedItem, list, c.mode)
	for i, b := range batched {
		if b.Err = err; err == nil {
			b.Out, b.Err = calls[i].decide(&replies[i])
		}
		if !b.Out.Noted {
			rs.ledger.Release()
		}
	}
}

// decide decodes the script's reply to one order, and records the order, if there is one.
func (c *reserveCall) decide(d *redisscript.Reply) (catalog.Decision, error) {
	rs, a := c.a.reserver, c.a
	word, free := d.Text(), int(d.Int())
	switch word {
	case "forgotten":
		return catalog.Decision{}, rs.sales.Forgotten(a.cachedItem)
	case "damaged":
		return catalog.Decision{}, rs.sales.Damaged(a.cachedItem)
	case "recovering":
		return catalog.Decision{}, orders.ErrRecovering
	}
	switch word {
	case "reserved", "held":
	case "unheld":
		rs.ledger.Drop(a.identity())
		return catalog.Decision{}, core.Unavailable(d.Err())
	default:
		out, err := a.decodeRefusal(word, free, d)
		return catalog.Decision{Out: out}, err
	}
	id, r, committed, err := Holder(d, word, c.r)
	switch {
	case err != nil:
		return catalog.Decision{}, core.Unavailable(err)
	case rs.RunIDs.Generation() != c.generation:
		// Another server answered than the one that was verified. If it keeps this reservation, the recovery finds it; the
		// order is not accepted here.
		return catalog.Decision{}, orders.ErrRecovering
	case committed:
		return catalog.Decision{Held: id}, nil
	}
	failpoint.Hit(failpoint.AfterReserve)
	if now, ok := rs.membership.Lease.Held(time.Now()); !ok || now != c.term {
		return catalog.Decision{}, core.ErrNoLease // a recovery may have gone on without this process since Redis was asked
	}
	if !rs.ledger.Add(a.identity(), r, c.term) {
		return catalog.Decision{}, orders.ErrRecovering
	}
	rs.enqueuer.Offer(r, c.from)
	return catalog.Decision{Out: orders.Outcome{Order: r.Accepted(), Replayed: r.ID != c.r.ID}, Noted: true}, nil
}

// Holder decodes which order has the identity: r, if it was reserved just now, or an earlier one. If the earlier one is
// committed, only the database has its state. Otherwise the process that reserved it may not have received the reply, so this
// process remembers it as well: every order that a client learns of has two copies.
func Holder(d *redisscript.Reply, word string, r orders.Reservation) (id string, of orders.Reservation, committed bool, err error) {
	id = d.Text()
	if word == "reserved" {
		r.AcceptedMS = d.Int()
		r.Units = make([]int, r.Quantity)
		for i := range r.Units {
			r.Units[i] = int(d.Int())
		}
		return id, r, false, d.Err()
	}
	record := d.Text()
	if d.Err() != nil || record == "" {
		return id, orders.Reservation{}, true, d.Err()
	}
	if of, err = orders.ParseReservation([]byte(record)); err != nil {
		err = fmt.Errorf("%w: reservation: %w", orders.ErrUnavailable, err)
	}
	return id, of, false, err
}

// Mode is on whose behalf reserve.lua runs: a buyer's, a late order's, or a late order's while the leader loads the sale;
// it is the leader's token then.
type Mode string

const (
	ModeNew    Mode = ""
	modeRepeat Mode = "repeat" // for a buyer who may already hold the order: nothing is reserved
	ModeLate   Mode = "late"   // the order was accepted in an earlier epoch
)

// RunReserve runs the script for orders of one item, and returns one reply per order, without the time and the counts.
func (rs *Reserver) RunReserve(ctx context.Context, ci *catalog.Item, list []orders.Reservation, mode Mode) ([]redisscript.Reply, error) {
	args := make([]any, 3, 3+6*len(list))
	args[0], args[1], args[2] = string(mode), "", ci.SeenBy(rs.Writer)
	for i := range list {
		r, accepted := &list[i], ""
		if mode != ModeNew && mode != modeRepeat {
			accepted = strconv.FormatInt(r.AcceptedMS, 10)
		}
		args = append(args, r.ID.String(), r.BuyerHash, r.KeyHash, r.Quantity, r.Body(), accepted)
	}
	d, err := rs.runReserveScript(ctx, mode, ci.Keys, args)
	if err != nil {
		return nil, core.Unavailable(err)
	}
	now, counts := d.Int(), d.Text()
	if err := d.Expect(len(list)); err != nil {
		return nil, core.Unavailable(err)
	}
	rs.Clock.Read(now)
	ci.Saw(counts)
	replies := make([]redisscript.Reply, len(list))
	for i := range replies {
		replies[i] = d.List()
	}
	return replies, nil
}

// runReserveScript runs reserve.lua, and returns its reply once the reservations have the copies that Options.Durability requires.
// Orders from before a recovery need none: the caller commits them next.
func (rs *Reserver) runReserveScript(ctx context.Context, mode Mode, keys []string, args []any) (redisscript.Reply, error) {
	if rs.replicas == nil || mode != ModeNew && mode != modeRepeat {
		r := lua.Reserve.Run(ctx, rs.Batched, keys, args...)
		return r, r.Err()
	}
	args[1] = "kept"
	return rs.replicas.Run(ctx, keys, args)
}
