package reserve

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/lazydeadline"
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
	within := lazydeadline.Detached(ctx, c.deadline)
	defer within.End()
	batches := c.a.cachedItem.Reserving
	if c.mode == modeRepeat {
		batches = c.a.cachedItem.Repeating
	}
	d, err := batches.Do(within, c)
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
func (c *reserveCall) decide(d *Reply) (catalog.Decision, error) {
	rs, a := c.a.reserver, c.a
	switch d.Word {
	case "forgotten":
		return catalog.Decision{}, rs.sales.Forgotten(a.cachedItem)
	case "damaged":
		return catalog.Decision{}, rs.sales.Damaged(a.cachedItem)
	case "recovering":
		return catalog.Decision{}, orders.ErrRecovering
	case "reserved", "held":
	case "unheld":
		rs.ledger.Drop(a.identity())
		return catalog.Decision{}, core.Unavailable(d.Err())
	default:
		out, err := a.decodeRefusal(d)
		return catalog.Decision{Out: out}, err
	}
	r, committed, err := d.Holder(&c.r)
	switch {
	case err != nil:
		return catalog.Decision{}, core.Unavailable(err)
	case rs.RunIDs.Generation() != c.generation:
		// Another server answered than the one that was verified. If it keeps this reservation, the recovery finds it; the
		// order is not accepted here.
		return catalog.Decision{}, orders.ErrRecovering
	case committed:
		return catalog.Decision{Held: r.ID}, nil
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

// Reply is what reserve.lua replied to one order.
type Reply struct {
	Word              string // "reserved", or why not
	Free              int    // units, unless the order was reserved
	redisscript.Reply        // the rest: units, or what belongs to the word
	now               int64  // when the script ran, in ms
}

func (d *Reply) decode(list *redisscript.Reply) {
	if d.Reply = list.Values(); d.Numeric() {
		d.Word = "reserved"
		return
	}
	d.Word, d.Free = d.Text(), int(d.Int())
}

// Holder decodes which order has the identity: r, if it was reserved just now, or an earlier one. If the earlier one is
// committed, only its id is set, for the database has its state. Otherwise the process that reserved it may not have received the
// reply, so this process remembers it as well: every order that a client learns of has two copies.
func (d *Reply) Holder(r *orders.Reservation) (of orders.Reservation, committed bool, err error) {
	if d.Word == "reserved" {
		of = *r
		if of.AcceptedMS == 0 {
			of.AcceptedMS = d.now
		}
		of.Units = make([]int, r.Quantity)
		for i := range of.Units {
			of.Units[i] = int(d.Int())
		}
		return of, false, d.Expect(0)
	}
	id, record := d.Text(), d.Text()
	if d.Err() != nil {
		return of, false, d.Err()
	}
	if record != "" {
		of, err = orders.ParseReservation([]byte(record))
	} else {
		of.ID, err = orders.ParseID(id)
	}
	if err != nil {
		err = fmt.Errorf("%w: reserve replied with the order %.40q: %w", orders.ErrUnavailable, id, err)
	}
	return of, record == "", err
}

// Mode is on whose behalf reserve.lua runs: a buyer's, a late order's, or a late order's while the leader loads the sale;
// it is the leader's token then.
type Mode string

const (
	ModeNew    Mode = ""
	modeRepeat Mode = "repeat" // for a buyer who may already hold the order: nothing is reserved
	ModeLate   Mode = "late"   // the order was accepted in an earlier epoch
)

// RunReserve runs the script for orders of one item, and returns one reply per order. Orders with AcceptedMS were accepted in an
// earlier epoch.
func (rs *Reserver) RunReserve(ctx context.Context, ci *catalog.Item, list []orders.Reservation, mode Mode) ([]Reply, error) {
	args := make([]any, 3, 3+6*len(list))
	args[0], args[1], args[2] = string(mode), "", ci.SeenBy(rs.Writer)
	texts := make([]struct{ body, id string }, len(list)) // pointers to strings are arguments that need no memory
	for i := range list {
		r, t, accepted := &list[i], &texts[i], ""
		if r.AcceptedMS != 0 {
			accepted = strconv.FormatInt(r.AcceptedMS, 10)
		}
		t.body, t.id = r.Body()
		args = append(args, &t.id, &r.BuyerHash, &r.KeyHash, r.Quantity, &t.body, accepted)
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
	replies := make([]Reply, len(list))
	for i := range replies {
		replies[i].now = now
		replies[i].decode(&d)
	}
	return replies, nil
}

// directMost is how many scripts may be under way in a process before further ones, of other items, share round trips: a shared round trip
// costs a script that is alone two more changes of the goroutine.
const directMost = 2

// runReserveScript runs reserve.lua, and returns its reply once the reservations have the copies that Options.Durability requires.
// Orders from before a recovery need none: the caller commits them next.
func (rs *Reserver) runReserveScript(ctx context.Context, mode Mode, keys []string, args []any) (redisscript.Reply, error) {
	if rs.replicas == nil || mode != ModeNew && mode != modeRepeat {
		rdb := rs.Base
		if rs.scripts.Add(1) > directMost {
			rdb = rs.Batched
		}
		defer rs.scripts.Add(-1)
		// The reply records orders also when no caller waits for it any more. The client bounds the time by itself.
		r := lua.Reserve.Run(context.WithoutCancel(ctx), rdb, keys, args...)
		return r, r.Err()
	}
	args[1] = "kept"
	return rs.replicas.Run(ctx, keys, args)
}
