package orders

import (
	"context"
	"sync"
	"time"
)

// ledger is this process's copy of the orders it accepted: the second one beside Redis until the database has them, and then a
// cache that recognizes repeated requests. Safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	max     int
	inUse   int              // uncommitted entries and decisions under way
	epochs  map[string]int64 // by sale; reservations of earlier epochs are not remembered any more
	pending map[ID]*entry
	known   map[identity]*entry // of pending ones
	past    *history            // committed ones
}

// identity is what a repeated request shares with the first.
type identity struct {
	item       int
	buyer, key string
}

// entry is an order that the database does not have, as far as this process was notified.
type entry struct {
	identity
	r     Reservation
	term  int64     // of the lease in which it was accepted, or last found in Redis
	since time.Time // accepted here, or asked about last
}

// kind is the state of an order in the ledger.
type kind int

const (
	pending   kind = iota // the database does not have it, as far as this process was notified
	committed             // the database has it, and it may change there
	final                 // it will not change any more
)

func newLedger(most int) *ledger {
	return &ledger{
		max: most, epochs: make(map[string]int64),
		pending: make(map[ID]*entry), known: make(map[identity]*entry), past: newHistory(most),
	}
}

// acquire reserves room for one more uncommitted order, or returns false if there is none.
func (l *ledger) acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inUse >= l.max {
		return false
	}
	l.inUse++
	return true
}

func (l *ledger) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inUse--
}

// add stores an order in the room that acquire reserved for it. term is the term of the lease in which it was accepted, or found
// in Redis again. It returns false when the epoch of its reservation is over: this process has already handed over its orders
// of that epoch.
func (l *ledger) add(who identity, r Reservation, term int64) bool {
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
	e := &entry{identity: who, r: r, term: term, since: time.Now()}
	l.pending[r.ID], l.known[who] = e, e
	l.past.forget(who)
	return true
}

// enter records the current epoch of a sale, and returns the uncommitted orders of earlier epochs.
func (l *ledger) enter(sale string, epoch int64) []Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs[sale] = epoch
	return l.uncommitted(func(r *Reservation) bool { return r.Sale == sale && r.Epoch < epoch })
}

// lost returns the committed orders of a sale, or of all if it is empty, in epochs before one that the database lacks, according to statuses: it went back in
// time. It asks for a block of orders at a time.
func (l *ledger) lost(ctx context.Context, sale string, before int64, statuses func(context.Context, []ID) (map[ID]Status, error)) ([]Reservation, error) {
	var lost []Reservation
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
			if r, ok := l.committed(id); ok {
				lost = append(lost, r)
			}
		}
	}
	return lost, nil
}

func (l *ledger) acceptedIn(block uint64, sale string, before int64) ([]ID, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past.acceptedIn(block, sale, before)
}

// committed returns the reservation of a committed order.
func (l *ledger) committed(id ID) (Reservation, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past.accepted(id)
}

// since returns when the latest order was committed that this process has accepted and does not remember any more, or when the
// process started.
func (l *ledger) since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.past.since
}

// all returns the uncommitted orders.
func (l *ledger) all() []Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.uncommitted(func(*Reservation) bool { return true })
}

func (l *ledger) uncommitted(is func(*Reservation) bool) []Reservation {
	var list []Reservation
	for _, e := range l.pending {
		if is(&e.r) {
			list = append(list, e.r)
		}
	}
	return list
}

// learn stores a committed order under its identity. An order without a key that ended is removed instead: it would block the
// buyer's next order.
func (l *ledger) learn(who identity, o Order) {
	what := committed
	if o.Status == StatusPaid || o.Status == StatusConfirmed && o.PayBefore.IsZero() {
		what = final
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
	case !o.Status.OwnsUnits() && who.key == "":
		if same {
			l.past.forget(who)
		}
	case !same || before.what != what || what == final && before.order.Status != o.Status:
		rec := record{identity: who, what: what, order: o}
		if r, mine := l.past.accepted(o.ID); mine {
			rec.epoch = r.Epoch
		}
		l.past.add(&rec, true, time.Now())
		delete(l.known, who)
	}
}

// drop removes a committed order that its buyer no longer holds.
func (l *ledger) drop(who identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.past.forget(who)
}

// held returns the order of an identity. An order that is pending here may be committed if the notification was lost.
func (l *ledger) held(who identity) (o Order, what kind, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.known[who]; ok {
		return e.r.Accepted(), pending, true
	}
	rec, ok := l.past.order(who)
	return rec.order, rec.what, ok
}

// promised reports whether the pending order of an identity was accepted in that term of the lease.
func (l *ledger) promised(who identity, term int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	return ok && e.term == term
}

// accepted returns an uncommitted order.
func (l *ledger) accepted(id ID) (Order, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.pending[id]
	if !ok {
		return Order{}, false
	}
	return e.r.Accepted(), true
}

// settle records the status of an order in the database. An order that ended is not committed again if the database loses it: its
// units and its buyer's quota may be another order's.
func (l *ledger) settle(id ID, status Status) {
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
	known := l.known[e.identity] == e
	if known {
		delete(l.known, e.identity)
	}
	if status.OwnsUnits() {
		o := e.r.Accepted()
		o.Units = e.r.Units
		l.past.add(&record{identity: e.identity, what: committed, order: o, epoch: e.r.Epoch}, known, time.Now())
	}
}

// overdue returns at most most uncommitted orders that were not asked about for age. They count as asked about now.
func (l *ledger) overdue(age time.Duration, most int) []Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var late []Reservation
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

// askAgain makes all uncommitted orders overdue.
func (l *ledger) askAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.pending {
		e.since = time.Time{}
	}
}
