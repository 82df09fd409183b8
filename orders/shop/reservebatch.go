package shop

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
)

const (
	reserveMax    = 32 // orders of one script, which blocks its server for about a millisecond
	scriptsAtOnce = 2  // per item
)

// reserveCall is an order on its way through reserve.lua.
type reserveCall struct {
	a          *Attempt
	mode       reserveMode
	r          orders.Reservation
	generation int64             // of the Redis that was verified
	term       int64             // of the lease
	deadline   time.Time         // after it no caller waits any more
	from       trace.SpanContext // of the request
}

// decision is the result of a reserveCall.
type decision struct {
	out   orders.Outcome
	held  string // id of the committed order that has the identity; the database has its state
	noted bool   // the ledger has the order
}

// reserveBatcher lets orders of one item and mode share a script: the fixed cost of a script is as high as the cost of one order.
type reserveBatcher = batch.Batcher[*reserveCall, decision]

func newReserveBatcher() *reserveBatcher {
	return batch.New(reserveMax, scriptsAtOnce, func(ctx context.Context, calls []*batch.Call[*reserveCall, decision]) {
		calls[0].In.a.reserver.reserveBatch(ctx, calls)
	})
}

// reserve returns when the order is decided, or ErrUnavailable at its deadline. An order in a script is still decided then.
func (rs *reserver) reserve(ctx context.Context, c *reserveCall) (decision, error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), c.deadline)
	defer cancel()
	batches := c.a.cachedItem.reserving
	if c.mode == modeRepeat {
		batches = c.a.cachedItem.repeating
	}
	d, err := batches.Do(ctx, c)
	if errors.Is(err, batch.ErrNotRun) {
		rs.ledger.Release()
	}
	return d, unavailable(err)
}

// reserveBatch runs the script and records the results, also for callers that no longer wait. It releases the room of orders that
// the ledger does not have.
func (rs *reserver) reserveBatch(ctx context.Context, calls []*batch.Call[*reserveCall, decision]) {
	list := make([]orders.Reservation, len(calls))
	var deadline time.Time // the latest of the batch
	for i, c := range calls {
		list[i] = c.In.r
		if c.In.deadline.After(deadline) {
			deadline = c.In.deadline
		}
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	first := calls[0].In
	replies, err := rs.runReserve(ctx, first.a.cachedItem, list, first.mode)
	for i, c := range calls {
		if c.Err = err; err == nil {
			c.Out, c.Err = c.In.decide(&replies[i])
		}
		if !c.Out.noted {
			rs.ledger.Release()
		}
	}
}

// decide decodes the script's reply to one order, and records the order, if there is one.
func (c *reserveCall) decide(d *redisscript.Reply) (decision, error) {
	rs, a := c.a.reserver, c.a
	word, free := d.Text(), int(d.Int())
	switch word {
	case "forgotten":
		return decision{}, rs.forgotten(a.cachedItem)
	case "damaged":
		return decision{}, rs.damaged(a.cachedItem)
	case "recovering":
		return decision{}, orders.ErrRecovering
	}
	switch word {
	case "reserved", "held":
	case "unheld":
		rs.ledger.Drop(a.identity())
		return decision{}, unavailable(d.Err())
	default:
		out, err := a.decodeRefusal(word, free, d)
		return decision{out: out}, err
	}
	id, r, committed, err := holder(d, word, c.r)
	switch {
	case err != nil:
		return decision{}, unavailable(err)
	case rs.runIDs.Generation() != c.generation:
		// Another server answered than the one that was verified. If it keeps this reservation, the recovery finds it; the
		// order is not accepted here.
		return decision{}, orders.ErrRecovering
	case committed:
		return decision{held: id}, nil
	}
	failpoint.Hit(failpoint.AfterReserve)
	if now, ok := rs.membership.lease.Held(time.Now()); !ok || now != c.term {
		return decision{}, errNoLease // a recovery may have gone on without this process since Redis was asked
	}
	if !rs.ledger.Add(a.identity(), r, c.term) {
		return decision{}, orders.ErrRecovering
	}
	rs.enqueuer.offer(r, c.from)
	return decision{out: orders.Outcome{Order: r.Accepted(), Replayed: r.ID != c.r.ID}, noted: true}, nil
}

// holder decodes which order has the identity: r, if it was reserved just now, or an earlier one. If the earlier one is
// committed, only the database has its state. Otherwise the process that reserved it may not have received the reply, so this
// process remembers it as well: every order that a client learns of has two copies.
func holder(d *redisscript.Reply, word string, r orders.Reservation) (id string, of orders.Reservation, committed bool, err error) {
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

// reserveMode is on whose behalf reserve.lua runs: a buyer's, a late order's, or a late order's while the leader loads the sale;
// it is the leader's token then.
type reserveMode string

const (
	modeNew    reserveMode = ""
	modeRepeat reserveMode = "repeat" // for a buyer who may already hold the order: nothing is reserved
	modeLate   reserveMode = "late"   // the order was accepted in an earlier epoch
)

// runReserve runs the script for orders of one item, and returns one reply per order, without the time and the counts.
func (rs *reserver) runReserve(ctx context.Context, ci *cachedItem, list []orders.Reservation, mode reserveMode) ([]redisscript.Reply, error) {
	args := make([]any, 3, 3+6*len(list))
	args[0], args[1], args[2] = string(mode), "", rs.seen(ci)
	for i := range list {
		r, accepted := &list[i], ""
		if mode != modeNew && mode != modeRepeat {
			accepted = strconv.FormatInt(r.AcceptedMS, 10)
		}
		args = append(args, r.ID.String(), r.BuyerHash, r.KeyHash, r.Quantity, r.Body(), accepted)
	}
	d, err := rs.runReserveScript(ctx, mode, ci.keys, args)
	if err != nil {
		return nil, unavailable(err)
	}
	now, counts := d.Int(), d.Text()
	if err := d.Expect(len(list)); err != nil {
		return nil, unavailable(err)
	}
	rs.clock.read(now)
	ci.saw(counts)
	replies := make([]redisscript.Reply, len(list))
	for i := range replies {
		replies[i] = d.List()
	}
	return replies, nil
}
