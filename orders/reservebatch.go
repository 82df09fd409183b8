package orders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/batch"
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
	r          Reservation
	generation int64             // of the Redis that was verified
	term       int64             // of the lease
	deadline   time.Time         // after it no caller waits any more
	from       trace.SpanContext // of the request
}

// decision is the result of a reserveCall.
type decision struct {
	out   Outcome
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
		rs.ledger.release()
	}
	return d, unavailable(err)
}

// reserveBatch runs the script and records the results, also for callers that no longer wait. It releases the room of orders that
// the ledger does not have.
func (rs *reserver) reserveBatch(ctx context.Context, calls []*batch.Call[*reserveCall, decision]) {
	list := make([]Reservation, len(calls))
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
			c.Out, c.Err = c.In.decide(replies[i])
		}
		if !c.Out.noted {
			rs.ledger.release()
		}
	}
}

// decide decodes the script's reply to one order, and records the order, if there is one.
func (c *reserveCall) decide(d *decoder) (decision, error) {
	rs, a := c.a.reserver, c.a
	word, free := d.string(), int(d.int64())
	switch word {
	case "forgotten":
		return decision{}, rs.forgotten(a.cachedItem)
	case "damaged":
		return decision{}, rs.damaged(a.cachedItem)
	case "recovering":
		return decision{}, ErrRecovering
	}
	switch word {
	case "reserved", "held":
	case "unheld":
		rs.ledger.drop(a.identity())
		return decision{}, d.err
	default:
		out, err := a.decodeRefusal(word, free, d)
		return decision{out: out}, err
	}
	id, r, committed := d.holder(word, c.r)
	switch {
	case d.err != nil:
		return decision{}, d.err
	case rs.runIDs.Generation() != c.generation:
		// Another server answered than the one that was verified. If it keeps this reservation, the recovery finds it; the
		// order is not accepted here.
		return decision{}, ErrRecovering
	case committed:
		return decision{held: id}, nil
	}
	failpoint.Hit(failpoint.AfterReserve)
	if now, ok := rs.membership.lease.Held(time.Now()); !ok || now != c.term {
		return decision{}, errNoLease // a recovery may have gone on without this process since Redis was asked
	}
	if !rs.ledger.add(a.identity(), r, c.term) {
		return decision{}, ErrRecovering
	}
	rs.enqueuer.offer(r, c.from)
	return decision{out: Outcome{Order: r.Accepted(), Replayed: r.ID != c.r.ID}, noted: true}, nil
}

// holder decodes which order has the identity: r, if it was reserved just now, or an earlier one. If the earlier one is
// committed, only the database has its state. Otherwise the process that reserved it may not have received the reply, so this
// process remembers it as well: every order that a client learns of has two copies.
func (d *decoder) holder(word string, r Reservation) (id string, of Reservation, committed bool) {
	id = d.string()
	if word == "reserved" {
		r.AcceptedMS = d.int64()
		r.Units = make([]int, r.Quantity)
		for i := range r.Units {
			r.Units[i] = int(d.int64())
		}
		return id, r, false
	}
	record := d.string()
	if record == "" {
		return id, Reservation{}, true
	}
	of, err := ParseReservation([]byte(record))
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%w: reservation: %w", ErrUnavailable, err)
	}
	return id, of, false
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
func (rs *reserver) runReserve(ctx context.Context, ci *cachedItem, list []Reservation, mode reserveMode) ([]*decoder, error) {
	args := make([]any, 3, 3+6*len(list))
	args[0], args[1], args[2] = string(mode), "", rs.seen(ci)
	for i := range list {
		r, accepted := &list[i], ""
		if mode != modeNew && mode != modeRepeat {
			accepted = strconv.FormatInt(r.AcceptedMS, 10)
		}
		args = append(args, r.ID.String(), r.BuyerHash, r.KeyHash, r.Quantity, r.body(), accepted)
	}
	reply, err := rs.runReserveScript(ctx, mode, ci.keys, args)
	d := decoder{reply: reply}
	now, counts := d.int64(), d.string()
	if err == nil && d.err == nil && len(d.reply) != len(list) {
		err = fmt.Errorf("reserve replied %d answers to %d orders", len(d.reply), len(list))
	}
	if err = cmp.Or(err, d.err); err != nil {
		return nil, unavailable(err)
	}
	rs.clock.read(now)
	ci.saw(counts)
	decoders := make([]*decoder, len(list))
	for i := range decoders {
		items, _ := d.reply[i].([]any)
		decoders[i] = &decoder{reply: items}
	}
	return decoders, nil
}
