package orders

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Query selects orders of one sale, in the order of their ids.
type Query struct {
	Sale   string
	Viewer Viewer
	User   string // of all orders, those of one user
	Status Status // optional
	After  ID     // exclusive
	Limit  int
}

// listWithin bounds what a caller waits for a list from a database that is
// frozen: it keeps its connections and answers nothing, so nothing else ends
// the wait. One order is waited for as long as a decision.
const listWithin = 2 * time.Second

// SaleStatus is a sale as it stands now.
type SaleStatus struct {
	Sale
	State State
	Now   time.Time      // Redis' clock
	Free  map[string]int // units left by item id; 0 for items that are recovering
}

// newSale is how long this process may not have heard of a sale, and so of its orders.
const newSale = 10 * time.Second

// handOver is how long after a recovery the other processes may need to hand
// in what they remember, so that no list of a buyer's orders is whole.
const handOver = 5 * time.Second

// lateArrivals is how long after a recovery an order of before may still be
// in another process's memory only, so that nobody can call it unknown.
const lateArrivals = time.Minute

// pendingFor is how long whoever repeats a request is told from memory that the order is accepted.
const pendingFor = 100 * time.Millisecond

// missedNews is how long a waiter relies on being told before it asks.
const missedNews = 5 * time.Second

// Sale returns how a sale stands, at most 200 ms old.
func (s *Service) Sale(ctx context.Context, sale string) (SaleStatus, error) {
	l, err := s.listing(sale)
	if err != nil {
		return SaleStatus{}, err
	}
	// Many ask at once, and one of them looks.
	seen, err, _ := s.flights.Do("sale "+sale, func() (any, error) {
		var glances []*glance
		err := s.within(ctx, func(ctx context.Context) (err error) {
			glances, err = s.glances(ctx, l)
			return err
		})
		if err != nil {
			return nil, err // glances may still be written
		}
		return glances, nil
	})
	if err != nil {
		return SaleStatus{}, err
	}
	status := SaleStatus{Sale: l.Sale, Free: make(map[string]int, len(l.Items))}
	recovering := false
	glances := seen.([]*glance) // of whoever looked, who may know of items that were added meanwhile, or not yet
	for i, sh := range l.all() {
		var g *glance
		if i < len(glances) {
			g = glances[i]
		}
		switch {
		case sh.forgottenAt(time.Now()):
		case g == nil || g.recovering || sh.generation.Load() != s.fence.generation.Load():
			recovering = true
		default:
			status.Free[sh.item.ID] = g.free
		}
	}
	now, _ := s.clock.now()
	status.Now = now.UTC()
	status.State = l.StateAt(now)
	if recovering && status.State != StateClosed && !l.shelves[l.Items[0].ID].forgottenAt(now) {
		status.State = StateRecovering
	}
	return status, nil
}

// glances are at most 200 ms old, in the order of the items; nil for an item that Redis does not know.
func (s *Service) glances(ctx context.Context, l *listing) ([]*glance, error) {
	glances := make([]*glance, len(l.Items))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64) // they share round trips
	for i, sh := range l.all() {
		if sh.forgottenAt(time.Now()) {
			continue
		}
		if glances[i] = sh.glance.Load(); glances[i] != nil && time.Since(glances[i].at) < glanceTTL {
			continue
		}
		g.Go(func() (err error) {
			if glances[i], err = s.look(ctx, sh); errors.Is(err, ErrRecovering) {
				err = nil
			}
			return err
		})
	}
	return glances, g.Wait()
}

// Sales returns how all sales stand, by name.
func (s *Service) Sales(ctx context.Context) ([]SaleStatus, error) {
	c := s.catalog.Load()
	if !c.loaded {
		return nil, fmt.Errorf("%w: sales are not loaded yet", ErrUnavailable)
	}
	list := make([]SaleStatus, 0, len(c.sales))
	for _, id := range slices.Sorted(maps.Keys(c.sales)) {
		status, err := s.Sale(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, status)
	}
	return list, nil
}

// Order returns an order, from memory or Redis while it is not committed, else
// from the database. ErrUnknownOrder stands also for somebody else's.
func (s *Service) Order(ctx context.Context, id ID, v Viewer) (Order, error) {
	o, err := s.order(ctx, id)
	if err == nil && !v.May(&o) {
		return Order{}, ErrUnknownOrder
	}
	return o, err
}

func (s *Service) order(ctx context.Context, id ID) (Order, error) {
	var redisErr error
	o, pending := s.ledger.accepted(id)
	if !pending {
		// Redis first: what it no longer calls pending, the database has.
		o, pending, redisErr = s.pendingOrder(ctx, id)
	}
	reading, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	stored, err := s.store.Order(reading, id)
	switch {
	case err == nil:
		return stored, nil // whoever says that it is pending has missed the news
	case pending:
		return o, nil
	case errors.Is(err, ErrUnknownOrder) && redisErr != nil:
		return Order{}, redisErr // it may be pending where nobody could look
	}
	return Order{}, err
}

// newest is a pending order as the database has it, if it was not accepted just
// now: a second click within moments costs nobody a look.
func (s *Service) newest(ctx context.Context, pending Order) Order {
	if s.justAccepted(pending) {
		return pending
	}
	reading, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if o, err := s.store.Order(reading, pending.ID); err == nil {
		return o
	}
	return pending
}

func (s *Service) justAccepted(o Order) bool {
	now, _ := s.clock.now()
	return now.Sub(o.AcceptedAt) < pendingFor
}

// pendingOrder asks Redis for an uncommitted order.
func (s *Service) pendingOrder(ctx context.Context, id ID) (o Order, pending bool, err error) {
	c := s.catalog.Load()
	sh, ok := c.byNumber[id.item()]
	switch {
	case ok && sh.forgottenAt(time.Now()), !ok && c.loaded && time.Since(id.time()) > newSale:
		return Order{}, false, nil
	case !ok: // asking at once would let a forged id make this process read all sales
		return Order{}, false, fmt.Errorf("%w: the item of order %s is not known here yet", ErrUnavailable, id)
	}
	generation, err := s.verified(ctx, sh)
	if err != nil {
		return Order{}, false, err
	}
	var found []any
	err = s.within(ctx, func(ctx context.Context) error {
		reply, err := findScript.Run(ctx, s.rdb, sh.keys, id.String()).Slice()
		found = reply
		return err
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
	case word == "settled" && s.fence.generation.Load() == generation:
		rebuilt := time.UnixMilli(d.int64())
		if now, _ := s.clock.now(); id.time().Before(rebuilt) && now.Sub(rebuilt) < lateArrivals {
			return Order{}, false, fmt.Errorf("%w: order %s may be on its way", ErrRecovering, id)
		}
		return Order{}, false, d.err
	}
	s.suspectForgotten(sh)
	return Order{}, false, ErrRecovering
}

// Wait is Order, but as long as the status is while it waits for it to change,
// at most for so long, or until Stop.
func (s *Service) Wait(ctx context.Context, id ID, v Viewer, while Status, wait time.Duration) (Order, error) {
	changed, done := s.waiters.wait(id)
	defer done()
	var o Order
	err := s.await(ctx, wait, missedNews, changed, func() (bool, error) {
		var err error
		o, err = s.Order(ctx, id, v)
		return o.Status != while, err
	})
	return o, err
}

// Orders lists orders of a sale: all for a viewer of all, else the viewer's
// own. Those not committed yet stand among them.
func (s *Service) Orders(ctx context.Context, q Query) ([]Order, error) {
	l, err := s.listing(q.Sale)
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
	// Pending ones are read first: one that is committed meanwhile is then seen twice, not never.
	var pending []Order
	if q.Status == "" || q.Status == StatusAccepted {
		if pending, err = s.pendingOrders(ctx, l, f); err != nil {
			return nil, err
		}
	}
	reading, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	list, err := s.store.Orders(reading, f)
	if err != nil {
		return nil, err
	}
	list = append(list, pending...)
	slices.SortStableFunc(list, func(a, b Order) int { return strings.Compare(string(a.ID[:]), string(b.ID[:])) })
	list = slices.CompactFunc(list, func(a, b Order) bool { return a.ID == b.ID })
	return list[:min(len(list), q.Limit)], nil
}

// pendingOrders are the uncommitted orders that match: of one buyer, or of all.
func (s *Service) pendingOrders(ctx context.Context, l *listing, f Filter) ([]Order, error) {
	var list []Order
	for _, sh := range l.all() {
		if sh.forgottenAt(time.Now()) {
			continue
		}
		if _, err := s.verified(ctx, sh); err != nil {
			return nil, err
		}
		records, err := s.pendingRecords(ctx, sh, f.BuyerHash)
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

func (s *Service) pendingRecords(ctx context.Context, sh *shelf, buyerHash string) ([]string, error) {
	var records []string
	err := s.within(ctx, func(ctx context.Context) (err error) {
		if buyerHash == "" {
			records, err = s.base.HVals(ctx, sh.keys[2]).Result()
			return err
		}
		reply, err := heldScript.Run(ctx, s.rdb, sh.keys, buyerHash).Slice()
		if err != nil {
			return err
		}
		d := decoder{reply: reply}
		if ms := d.int64(); ms >= 0 && ms < handOver.Milliseconds() {
			return fmt.Errorf("%w: orders of before may be on their way", ErrRecovering)
		}
		records = d.strings()
		return d.err
	})
	return records, err
}
