// Package ledger remembers the orders that a process has accepted.
package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// Ledger is this process's copy of the orders it accepted: the second one beside Redis until the database has them, and then a
// cache that recognizes repeated requests. Safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	max     int
	inUse   int              // uncommitted entries and decisions under way
	epochs  map[string]int64 // by sale; reservations of earlier epochs are not remembered any more
	pending map[orders.ID]*entry
	known   map[Identity]*entry // of pending ones
	past    *history            // committed ones
}

// Identity is what a repeated request shares with the first.
type Identity struct {
	Item       int
	Buyer, Key string
}

// entry is an order that the database does not have, as far as this process was notified.
type entry struct {
	Identity
	r     orders.Reservation
	term  int64     // of the lease in which it was accepted, or last found in Redis
	since time.Time // accepted here, or asked about last
}

// Kind is the state of an order in a ledger.
type Kind int

// The kinds.
const (
	Pending   Kind = iota // the database does not have it, as far as this process was notified
	Committed             // the database has it, and it may change there
	Final                 // it will not change any more
)

// New returns a ledger for at most so many uncommitted orders, which remembers at least as many committed ones.
func New(most int) *Ledger {
	return &Ledger{
		max: most, epochs: make(map[string]int64),
		pending: make(map[orders.ID]*entry), known: make(map[Identity]*entry), past: newHistory(most),
	}
}

// Acquire reserves room for one more uncommitted order, or returns false if there is none.
func (l *Ledger) Acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inUse >= l.max {
		return false
	}
	l.inUse++
	return true
}

// Release gives the room up that Acquire reserved.
func (l *Ledger) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inUse--
}

// Add stores an order in the room that Acquire reserved for it. term is the term of the lease in which it was accepted, or found
// in Redis again. It returns false when the epoch of its reservation is over: this process has already handed over its orders
// of that epoch.
func (l *Ledger) Add(who Identity, r orders.Reservation, term int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Epoch < l.epochs[r.Sale] {
		return false
	}
	if e, twice := l.pending[r.ID]; twice {
		e.term = term
		l.inUse--
		return true
	}
	e := &entry{Identity: who, r: r, term: term, since: time.Now()}
	l.pending[r.ID], l.known[who] = e, e
	l.past.forget(who)
	return true
}

// Enter records the current epoch of a sale, and returns the uncommitted orders of earlier epochs.
func (l *Ledger) Enter(sale string, epoch int64) []orders.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs[sale] = epoch
	return l.uncommitted(func(r *orders.Reservation) bool { return r.Sale == sale && r.Epoch < epoch })
}

// Lost returns the committed orders of a sale, or of all if it is empty, in epochs before one that the database lacks, according
// to statuses: it went back in time. It asks for a block of orders at a time.
func (l *Ledger) Lost(
	ctx context.Context, sale string, before int64, statuses func(context.Context, []orders.ID) (map[orders.ID]orders.Status, error),
) ([]orders.Reservation, error) {
	var lost []orders.Reservation
	for ids, next := l.acceptedIn(0, sale, before); next > 0; ids, next = l.acceptedIn(next, sale, before) {
		if len(ids) == 0 {
			continue
		}
		found, err := statuses(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if _, ok := found[id]; ok {
				continue
			}
			if r, ok := l.Committed(id); ok {
				lost = append(lost, r)
			}
		}
	}
	return lost, nil
}

func (l *Ledger) acceptedIn(block uint64, sale string, before int64) ([]orders.ID, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past.acceptedIn(block, sale, before)
}

// Committed returns the reservation of a committed order.
func (l *Ledger) Committed(id orders.ID) (orders.Reservation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past.accepted(id)
}

// Since returns when the latest order was committed that this process has accepted and does not remember any more, or when the
// process started.
func (l *Ledger) Since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past.since
}

// All returns the uncommitted orders.
func (l *Ledger) All() []orders.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.uncommitted(func(*orders.Reservation) bool { return true })
}

func (l *Ledger) uncommitted(is func(*orders.Reservation) bool) []orders.Reservation {
	var list []orders.Reservation
	for _, e := range l.pending {
		if is(&e.r) {
			list = append(list, e.r)
		}
	}
	return list
}

// Learn stores a committed order under its identity. An order without a key that ended is removed instead: it would block the
// buyer's next order.
func (l *Ledger) Learn(who Identity, o orders.Order) {
	what := Committed
	if o.Status == orders.StatusPaid || o.Status == orders.StatusConfirmed && o.PayBefore.IsZero() {
		what = Final
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e, uncommitted := l.known[who]
	if uncommitted && e.r.ID == o.ID {
		return // it ends when its commit is reported
	}
	before, ok := l.past.order(who)
	same := ok && !uncommitted && before.order.ID == o.ID
	switch {
	case !o.Status.OwnsUnits() && who.Key == "":
		if same {
			l.past.forget(who)
		}
	case !same || before.what != what || what == Final && before.order.Status != o.Status:
		rec := record{Identity: who, what: what, order: o}
		if r, mine := l.past.accepted(o.ID); mine {
			rec.epoch = r.Epoch
		}
		l.past.add(&rec, true, time.Now())
		delete(l.known, who)
	}
}

// Drop removes a committed order that its buyer no longer holds.
func (l *Ledger) Drop(who Identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past.forget(who)
}

// Held returns the order of an identity. An order that is pending here may be committed if the notification was lost.
func (l *Ledger) Held(who Identity) (o orders.Order, what Kind, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.known[who]; ok {
		return e.r.Accepted(), Pending, true
	}
	rec, ok := l.past.order(who)
	return rec.order, rec.what, ok
}

// Promised reports whether the pending order of an identity was accepted in that term of the lease.
func (l *Ledger) Promised(who Identity, term int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	return ok && e.term == term
}

// Accepted returns an uncommitted order.
func (l *Ledger) Accepted(id orders.ID) (orders.Order, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.pending[id]
	if !ok {
		return orders.Order{}, false
	}
	return e.r.Accepted(), true
}

// Settle records the status of an order in the database. An order that ended is not committed again if the database loses it: its
// units and its buyer's quota may be another order's.
func (l *Ledger) Settle(id orders.ID, status orders.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.pending[id]
	if !ok {
		if !status.OwnsUnits() {
			l.past.end(id)
		}
		return
	}
	delete(l.pending, id)
	l.inUse--
	known := l.known[e.Identity] == e
	if known {
		delete(l.known, e.Identity)
	}
	if status.OwnsUnits() {
		o := e.r.Accepted()
		o.Units = e.r.Units
		l.past.add(&record{Identity: e.Identity, what: Committed, order: o, epoch: e.r.Epoch}, known, time.Now())
	}
}

// Overdue returns at most most uncommitted orders that were not asked about for age. They count as asked about now.
func (l *Ledger) Overdue(age time.Duration, most int) []orders.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var late []orders.Reservation
	now := time.Now()
	for _, e := range l.pending {
		if len(late) == most {
			break
		}
		if now.Sub(e.since) >= age {
			e.since = now
			late = append(late, e.r)
		}
	}
	return late
}

// AskAgain makes all uncommitted orders overdue.
func (l *Ledger) AskAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.pending {
		e.since = time.Time{}
	}
}
