// Package reading reads orders, waits for their changes, and exchanges these with other processes.
package reading

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/ledger"
	"github.com/tidegate/tidegate/orders/shop/internal/lua"
)

// ListWithin bounds how long a caller waits for a list from a database that hangs: it keeps its connections open and never
// answers. The read of a single order is bounded by Options.Timeout.
const ListWithin = 2 * time.Second

// newSale is how long a new sale, and so its orders, may be unknown to this process.
const newSale = 10 * time.Second

// lateArrivals is how long after a recovery an earlier order is not reported as unknown. Processes that were alive handed over
// before the sale opened: only a process that was suspended may still deliver orders that it remembers.
const lateArrivals = time.Minute

// pendingFor is how long after its acceptance an order is returned from memory to repeated requests.
const pendingFor = 100 * time.Millisecond

// missedNotifications is how long a waiter relies on notifications before it reads again.
const missedNotifications = 5 * time.Second

// Reader reads orders, and waits for their changes.
type Reader struct {
	*core.Core
	sales   *catalog.Watch
	ledger  *ledger.Ledger
	waiters *Waiters
	reading *batch.Batcher[orders.ID, orders.Order] // orders as the database has them
}

// NewReader returns the part. A notifier wakes its waiters.
func NewReader(c *core.Core, sales *catalog.Watch, l *ledger.Ledger, w *Waiters) *Reader {
	rd := &Reader{Core: c, sales: sales, ledger: l, waiters: w}
	rd.reading = batch.New(core.StatementMax, core.StatementsAtOnce, rd.readBatch)
	return rd
}

func (rd *Reader) Order(ctx context.Context, id orders.ID, v orders.Viewer) (orders.Order, error) {
	o, err := rd.order(ctx, id)
	if err == nil && !v.CanRead(&o) {
		return orders.Order{}, orders.ErrUnknownOrder
	}
	return o, err
}

func (rd *Reader) order(ctx context.Context, id orders.ID) (orders.Order, error) {
	if rd.Foreign.Load() {
		return orders.Order{}, core.ErrForeign
	}
	if !rd.sales.Issued(id) {
		return orders.Order{}, orders.ErrUnknownOrder
	}
	o, remembered := rd.ledger.Accepted(id)
	// The database first: after a response "confirmed", no later one may be "accepted".
	stored, err := rd.Stored(ctx, id)
	if !errors.Is(err, orders.ErrUnknownOrder) {
		return stored, err
	}
	if remembered {
		return o, nil
	}
	o, pending, err := rd.pendingOrder(ctx, id)
	if pending || err != nil {
		return o, err
	}
	return rd.Stored(ctx, id) // committed between the two looks, or unknown
}

// Newest returns the database's version of a pending order. An order accepted just now is returned as it is, so that repeated
// clicks cost no query.
func (rd *Reader) Newest(ctx context.Context, pending orders.Order) (orders.Order, error) {
	if rd.JustAccepted(pending) {
		return pending, nil
	}
	o, err := rd.Stored(ctx, pending.ID)
	if errors.Is(err, orders.ErrUnknownOrder) {
		return pending, nil
	}
	return o, err
}

// Stored reads the order from the database, within Options.Timeout.
func (rd *Reader) Stored(ctx context.Context, id orders.ID) (orders.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, rd.Timeout)
	defer cancel()
	return core.Batched(ctx, rd.reading, id)
}

// readBatch reads orders that are requested at the same time.
func (rd *Reader) readBatch(ctx context.Context, calls []*batch.Call[orders.ID, orders.Order]) {
	ctx, cancel := context.WithTimeout(ctx, rd.Timeout)
	defer cancel()
	found, err := rd.Store.Committed(ctx, core.Inputs(calls))
	if err != nil {
		core.FailBatch(calls, err, func(half []*batch.Call[orders.ID, orders.Order]) { rd.readBatch(ctx, half) })
		return
	}
	for _, c := range calls {
		var ok bool
		if c.Out, ok = found[c.In]; !ok {
			c.Err = orders.ErrUnknownOrder
		}
	}
}

// JustAccepted reports whether an order is too young for its row to be missed.
func (rd *Reader) JustAccepted(o orders.Order) bool {
	now, _ := rd.Clock.Now()
	return now.Sub(o.AcceptedAt) < pendingFor
}

// since returns how long ago an order was accepted; 0 while Redis' time is not known.
func (rd *Reader) since(id orders.ID) time.Duration {
	now, known := rd.Clock.Now()
	if !known {
		return 0
	}
	return now.Sub(id.Time())
}

// pendingOrder reads an uncommitted order from Redis.
func (rd *Reader) pendingOrder(ctx context.Context, id orders.ID) (o orders.Order, pending bool, err error) {
	c := rd.sales.Catalog.Load()
	ci, ok := c.ByNumber[id.Item()]
	switch {
	case ok && rd.Over(&ci.Sale.Sale), !ok && c.Loaded && rd.since(id) > newSale:
		return orders.Order{}, false, nil
	case !ok: // another process has just defined the sale; this one has not loaded it yet
		return orders.Order{}, false, fmt.Errorf("%w: the order's item is not known here yet", orders.ErrUnavailable)
	}
	generation, err := rd.sales.Verified(ctx, ci)
	if err != nil {
		return orders.Order{}, false, err
	}
	d, err := core.Within(ctx, rd.Core, func(ctx context.Context) (redisscript.Reply, error) {
		r := lua.Find.Run(ctx, rd.Batched, ci.Keys, id.String(), ci.SeenBy(rd.Writer))
		return r, r.Err()
	})
	if err != nil {
		return orders.Order{}, false, err
	}
	word := d.Text()
	switch {
	case d.Err() != nil:
		return orders.Order{}, false, core.Unavailable(d.Err())
	case word == "pending":
		r, err := orders.ParseReservation([]byte(d.Text()))
		if err != nil || d.Err() != nil {
			return orders.Order{}, false, fmt.Errorf("%w: the order's reservation cannot be read", orders.ErrUnavailable)
		}
		return r.Accepted(), true, nil
	case word == "settled" && rd.RunIDs.Generation() == generation:
		rebuilt := time.UnixMilli(d.Int())
		if now, _ := rd.Clock.Now(); id.Time().Before(rebuilt) && now.Sub(rebuilt) < lateArrivals {
			return orders.Order{}, false, fmt.Errorf("%w: the order may be on its way", orders.ErrRecovering)
		}
		return orders.Order{}, false, core.Unavailable(d.Err())
	}
	return orders.Order{}, false, rd.sales.Forgotten(ci)
}

func (rd *Reader) Wait(ctx context.Context, id orders.ID, v orders.Viewer, while orders.Status, wait time.Duration) (orders.Order, error) {
	changed, done := rd.waiters.wait(id)
	defer done()
	var o orders.Order
	looked := false
	err := rd.await(ctx, wait, missedNotifications, changed, func() (bool, error) {
		if mine, ok := rd.ledger.Accepted(id); ok && !looked && wait > 0 && while == orders.StatusAccepted && rd.JustAccepted(mine) &&
			v.CanRead(&mine) {
			looked, o = true, mine // its commit is about to be published
			return false, nil
		}
		var err error
		o, err = rd.Order(ctx, id, v)
		return o.Status != while, err
	})
	return o, err
}

func (rd *Reader) Orders(ctx context.Context, q orders.Query) ([]orders.Order, error) {
	l, err := rd.sales.Listing(q.Sale)
	if q.Viewer.All {
		l, err = rd.sales.Find(ctx, q.Sale)
	}
	if err != nil {
		return nil, err
	}
	user := q.User
	if !q.Viewer.All {
		user = q.Viewer.User
		if user == "" {
			return nil, orders.ErrUserRequired
		}
	}
	f := storage.Filter{Sale: q.Sale, Status: q.Status, After: q.After, Limit: q.Limit}
	if user != "" {
		f.BuyerHash = core.HashOf(l.Salt, core.HashUser, user)
	}
	// Pending orders are read first: an order that is committed meanwhile is then found twice, and never missed.
	var pending []orders.Order
	if q.Status == "" || q.Status == orders.StatusAccepted {
		if pending, err = rd.pendingOrders(ctx, l, f); err != nil {
			return nil, err
		}
	}
	reading, cancel := context.WithTimeout(ctx, ListWithin)
	defer cancel()
	list, err := rd.Store.Orders(reading, f)
	if err != nil {
		return nil, err
	}
	list = append(list, pending...)
	slices.SortStableFunc(list, func(a, b orders.Order) int { return strings.Compare(string(a.ID[:]), string(b.ID[:])) })
	list = slices.CompactFunc(list, func(a, b orders.Order) bool { return a.ID == b.ID })
	return list[:min(len(list), q.Limit)], nil
}

// pendingOrders returns the uncommitted orders that match: of one buyer, or of all.
func (rd *Reader) pendingOrders(ctx context.Context, l *catalog.Listing, f storage.Filter) ([]orders.Order, error) {
	var list []orders.Order
	for _, ci := range l.All() {
		if rd.Over(&ci.Sale.Sale) {
			continue
		}
		if _, err := rd.sales.Verified(ctx, ci); err != nil {
			return nil, err
		}
		records, err := rd.pendingRecords(ctx, ci, f.BuyerHash)
		if err != nil {
			return nil, err
		}
		for _, record := range records {
			r, err := orders.ParseReservation([]byte(record))
			if err != nil {
				return nil, fmt.Errorf("%w: reservation: %w", orders.ErrUnavailable, err)
			}
			if strings.Compare(string(r.ID[:]), string(f.After[:])) > 0 {
				list = append(list, r.Accepted())
			}
		}
	}
	return list, nil
}

func (rd *Reader) pendingRecords(ctx context.Context, ci *catalog.Item, buyerHash string) ([]string, error) {
	return core.Within(ctx, rd.Core, func(ctx context.Context) ([]string, error) {
		if buyerHash == "" {
			records, err := rd.Base.HVals(ctx, ci.Keys[core.PendingKey]).Result()
			if redis.HasErrorPrefix(err, "WRONGTYPE") {
				err = rd.sales.Forgotten(ci)
			}
			return catalog.WithoutSentinel(records), err
		}
		d := lua.Held.Run(ctx, rd.Batched, ci.Keys, buyerHash, ci.SeenBy(rd.Writer))
		if d.Text() == "forgotten" {
			return nil, rd.sales.Forgotten(ci)
		}
		records := d.Texts()
		return records, d.Err()
	})
}

func (rd *Reader) Totals(ctx context.Context, sale string) (orders.Totals, error) {
	if _, err := rd.sales.Find(ctx, sale); err != nil {
		return orders.Totals{}, err
	}
	return rd.Store.Totals(ctx, sale)
}
