package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/batch"
)

// Query selects orders of one sale, in the order of their ids.
type Query struct {
	Sale   string
	Viewer Viewer
	User   string // restricts a query for all orders to one user
	Status Status // optional
	After  ID     // exclusive
	Limit  int
}

// listWithin bounds how long a caller waits for a list from a database that hangs: it keeps its connections open and never
// answers. The read of a single order is bounded by Options.Timeout.
const listWithin = 2 * time.Second

// newSale is how long a new sale, and so its orders, may be unknown to this process.
const newSale = 10 * time.Second

// lateArrivals is how long after a recovery an earlier order is not reported as unknown. Processes that were alive handed over
// before the sale opened: only a process that was suspended may still deliver orders that it remembers.
const lateArrivals = time.Minute

// pendingFor is how long after its acceptance an order is returned from memory to repeated requests.
const pendingFor = 100 * time.Millisecond

// missedNotifications is how long a waiter relies on notifications before it reads again.
const missedNotifications = 5 * time.Second

// reader reads orders, and waits for their changes.
type reader struct {
	*core
	sales   *catalogWatch
	ledger  *ledger
	waiters *waiters
	reading *batch.Batcher[ID, Order] // orders as the database has them
}

// Order returns an order, from memory or Redis while it is not committed, otherwise from the database. It returns
// ErrUnknownOrder also for another user's order.
func (rd *reader) Order(ctx context.Context, id ID, v Viewer) (Order, error) {
	o, err := rd.order(ctx, id)
	if err == nil && !v.CanRead(&o) {
		return Order{}, ErrUnknownOrder
	}
	return o, err
}

func (rd *reader) order(ctx context.Context, id ID) (Order, error) {
	if rd.foreign.Load() {
		return Order{}, errForeign
	}
	if !rd.sales.issued(id) {
		return Order{}, ErrUnknownOrder
	}
	o, remembered := rd.ledger.accepted(id)
	// The database first: after a response "confirmed", no later one may be "accepted".
	stored, err := rd.stored(ctx, id)
	if !errors.Is(err, ErrUnknownOrder) {
		return stored, err
	}
	if remembered {
		return o, nil
	}
	o, pending, err := rd.pendingOrder(ctx, id)
	if pending || err != nil {
		return o, err
	}
	return rd.stored(ctx, id) // committed between the two looks, or unknown
}

// newest returns the database's version of a pending order. An order accepted just now is returned as it is, so that repeated
// clicks cost no query.
func (rd *reader) newest(ctx context.Context, pending Order) (Order, error) {
	if rd.justAccepted(pending) {
		return pending, nil
	}
	o, err := rd.stored(ctx, pending.ID)
	if errors.Is(err, ErrUnknownOrder) {
		return pending, nil
	}
	return o, err
}

// stored reads the order from the database, within Options.Timeout.
func (rd *reader) stored(ctx context.Context, id ID) (Order, error) {
	ctx, cancel := context.WithTimeout(ctx, rd.opts.Timeout)
	defer cancel()
	return batched(ctx, rd.reading, id)
}

// readBatch reads orders that are requested at the same time.
func (rd *reader) readBatch(ctx context.Context, calls []*batch.Call[ID, Order]) {
	ctx, cancel := context.WithTimeout(ctx, rd.opts.Timeout)
	defer cancel()
	found, err := rd.store.Committed(ctx, inputs(calls))
	if err != nil {
		failBatch(calls, err, func(half []*batch.Call[ID, Order]) { rd.readBatch(ctx, half) })
		return
	}
	for _, c := range calls {
		var ok bool
		if c.Out, ok = found[c.In]; !ok {
			c.Err = ErrUnknownOrder
		}
	}
}

func (rd *reader) justAccepted(o Order) bool {
	now, _ := rd.clock.now()
	return now.Sub(o.AcceptedAt) < pendingFor
}

// since returns how long ago an order was accepted; 0 while Redis' time is not known.
func (rd *reader) since(id ID) time.Duration {
	now, known := rd.clock.now()
	if !known {
		return 0
	}
	return now.Sub(id.time())
}

// pendingOrder reads an uncommitted order from Redis.
func (rd *reader) pendingOrder(ctx context.Context, id ID) (o Order, pending bool, err error) {
	c := rd.sales.catalog.Load()
	ci, ok := c.byNumber[id.item()]
	switch {
	case ok && rd.over(&ci.sale.Sale), !ok && c.loaded && rd.since(id) > newSale:
		return Order{}, false, nil
	case !ok: // another process has just defined the sale; this one has not loaded it yet
		return Order{}, false, fmt.Errorf("%w: the item of order %s is not known here yet", ErrUnavailable, id)
	}
	generation, err := rd.sales.verified(ctx, ci)
	if err != nil {
		return Order{}, false, err
	}
	found, err := within(ctx, rd.core, func(ctx context.Context) ([]any, error) {
		return findScript.Run(ctx, rd.rdb, ci.keys, id.String(), rd.seen(ci)).Slice()
	})
	if err != nil {
		return Order{}, false, err
	}
	d := decoder{reply: found}
	word := d.string()
	switch {
	case d.err != nil:
		return Order{}, false, d.err
	case word == "pending":
		r, err := ParseReservation([]byte(d.string()))
		if err != nil || d.err != nil {
			return Order{}, false, fmt.Errorf("%w: reservation of %s", ErrUnavailable, id)
		}
		return r.Accepted(), true, nil
	case word == "settled" && rd.runIDs.Generation() == generation:
		rebuilt := time.UnixMilli(d.int64())
		if now, _ := rd.clock.now(); id.time().Before(rebuilt) && now.Sub(rebuilt) < lateArrivals {
			return Order{}, false, fmt.Errorf("%w: order %s may be on its way", ErrRecovering, id)
		}
		return Order{}, false, d.err
	}
	return Order{}, false, rd.forgotten(ci)
}

// Wait is like Order, but waits while the order has the status while: at most for the duration wait, or until WakeWaiters.
func (rd *reader) Wait(ctx context.Context, id ID, v Viewer, while Status, wait time.Duration) (Order, error) {
	changed, done := rd.waiters.wait(id)
	defer done()
	var o Order
	looked := false
	err := rd.await(ctx, wait, missedNotifications, changed, func() (bool, error) {
		if mine, ok := rd.ledger.accepted(id); ok && !looked && wait > 0 && while == StatusAccepted && rd.justAccepted(mine) && v.CanRead(&mine) {
			looked, o = true, mine // its commit is about to be published
			return false, nil
		}
		var err error
		o, err = rd.Order(ctx, id, v)
		return o.Status != while, err
	})
	return o, err
}

// Orders lists orders of a sale: all of them if q.Viewer.All is set, otherwise the viewer's own. Uncommitted orders are
// included.
func (rd *reader) Orders(ctx context.Context, q Query) ([]Order, error) {
	l, err := rd.sales.listing(q.Sale)
	if q.Viewer.All {
		l, err = rd.sales.find(ctx, q.Sale)
	}
	if err != nil {
		return nil, err
	}
	user := q.User
	if !q.Viewer.All {
		user = q.Viewer.User
		if user == "" {
			return nil, ErrUserRequired
		}
	}
	f := Filter{Sale: q.Sale, Status: q.Status, After: q.After, Limit: q.Limit}
	if user != "" {
		f.BuyerHash = l.hash(hashUser, user)
	}
	// Pending orders are read first: an order that is committed meanwhile is then found twice, and never missed.
	var pending []Order
	if q.Status == "" || q.Status == StatusAccepted {
		if pending, err = rd.pendingOrders(ctx, l, f); err != nil {
			return nil, err
		}
	}
	reading, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	list, err := rd.store.Orders(reading, f)
	if err != nil {
		return nil, err
	}
	list = append(list, pending...)
	slices.SortStableFunc(list, func(a, b Order) int { return strings.Compare(string(a.ID[:]), string(b.ID[:])) })
	list = slices.CompactFunc(list, func(a, b Order) bool { return a.ID == b.ID })
	return list[:min(len(list), q.Limit)], nil
}

// pendingOrders returns the uncommitted orders that match: of one buyer, or of all.
func (rd *reader) pendingOrders(ctx context.Context, l *listing, f Filter) ([]Order, error) {
	var list []Order
	for _, ci := range l.all() {
		if rd.over(&ci.sale.Sale) {
			continue
		}
		if _, err := rd.sales.verified(ctx, ci); err != nil {
			return nil, err
		}
		records, err := rd.pendingRecords(ctx, ci, f.BuyerHash)
		if err != nil {
			return nil, err
		}
		for _, record := range records {
			r, err := ParseReservation([]byte(record))
			if err != nil {
				return nil, fmt.Errorf("%w: reservation: %w", ErrUnavailable, err)
			}
			if strings.Compare(string(r.ID[:]), string(f.After[:])) > 0 {
				list = append(list, r.Accepted())
			}
		}
	}
	return list, nil
}

func (rd *reader) pendingRecords(ctx context.Context, ci *cachedItem, buyerHash string) ([]string, error) {
	return within(ctx, rd.core, func(ctx context.Context) ([]string, error) {
		if buyerHash == "" {
			records, err := rd.base.HVals(ctx, ci.keys[pendingKey]).Result()
			if redis.HasErrorPrefix(err, "WRONGTYPE") {
				err = rd.forgotten(ci)
			}
			return withoutSentinel(records), err
		}
		reply, err := heldScript.Run(ctx, rd.rdb, ci.keys, buyerHash, rd.seen(ci)).Slice()
		if err != nil {
			return nil, err
		}
		d := decoder{reply: reply}
		if d.string() == "forgotten" {
			return nil, rd.forgotten(ci)
		}
		return d.strings(), d.err
	})
}
