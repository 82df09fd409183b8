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

// run runs the script for a batch and records the results, also for callers that no longer wait. It releases the room of orders that the ledger
// does not have.
func (c *reserveCall) run(ctx context.Context, batched []*batch.Call[request, decision]) {
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
	replies, err := rs.runReserve(ctx, c.a.cachedItem, list, c.mode)
	for i, b := range batched {
		if b.Err = err; err == nil {
			b.Out, b.Err = calls[i].decide(&replies[i])
		}
		if !b.Out.noted {
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
		return decision{}, rs.sales.forgotten(a.cachedItem)
	case "damaged":
		return decision{}, rs.sales.damaged(a.cachedItem)
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

// runReserveScript runs reserve.lua, and returns its reply once the reservations have the copies that Options.Durability requires.
// Orders from before a recovery need none: the caller commits them next.
func (rs *reserver) runReserveScript(ctx context.Context, mode reserveMode, keys []string, args []any) (redisscript.Reply, error) {
	if rs.replicas == nil || mode != modeNew && mode != modeRepeat {
		r := reserveScript.Run(ctx, rs.rdb, keys, args...)
		return r, r.Err()
	}
	args[1] = "kept"
	return rs.replicas.Run(ctx, keys, args)
}
