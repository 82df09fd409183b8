package orders

import (
	"sync"
	"time"
)

// ledger is this process's copy of the orders it accepted: the second one
// beside Redis until the database has them, and then a memory of who holds
// what, so that a repeated click costs no round trip. Safe for concurrent use.
type ledger struct {
	mu        sync.Mutex
	max       int
	claimed   int              // uncommitted entries and decisions under way
	epochs    map[string]int64 // by sale: what was reserved in an earlier one is too late to be remembered
	pending   map[ID]*entry
	known     map[identity]*entry
	settled   map[ID]*entry // committed, and known
	committed []*entry      // the same in the order of their commits, a ring of at most max
	next      int           // where in the ring the oldest stands
}

// knownFor is how long what is known of a committed order is said again
// without asking: it may be paid or cancelled elsewhere, and the news be lost.
const knownFor = 2 * time.Second

// identity is what a repeated request shares with the first.
type identity struct {
	item       int
	buyer, key string
}

type entry struct {
	identity
	r     Reservation
	order Order
	since time.Time // accepted here, or asked about last; of a committed order when it was as it is here
}

func newLedger(most int) *ledger {
	return &ledger{
		max: most, epochs: make(map[string]int64),
		pending: make(map[ID]*entry), known: make(map[identity]*entry), settled: make(map[ID]*entry),
	}
}

// claim takes room for one more uncommitted order, or says that there is none.
func (l *ledger) claim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claimed >= l.max {
		return false
	}
	l.claimed++
	return true
}

func (l *ledger) unclaim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimed--
}

// add remembers an order in the room that was claimed for it. It returns false
// when the epoch of its reservation is over: nobody would look for it any more.
func (l *ledger) add(who identity, r Reservation) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Epoch < l.epochs[r.Sale] {
		return false
	}
	if _, twice := l.pending[r.ID]; twice {
		l.claimed--
		return true
	}
	e := &entry{identity: who, r: r, order: r.Accepted(), since: time.Now()}
	l.pending[r.ID], l.known[who] = e, e
	return true
}

// enter notes that a sale is in an epoch, and returns what is remembered of earlier ones.
func (l *ledger) enter(sale string, epoch int64) []Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs[sale] = epoch
	return l.uncommitted(func(r *Reservation) bool { return r.Sale == sale && r.Epoch < epoch })
}

// all are the uncommitted orders.
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

// learn remembers who holds an order that is committed.
func (l *ledger) learn(who identity, o Order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	if !ok || e.order.ID != o.ID {
		e = &entry{identity: who}
		l.known[who] = e
		l.keep(o.ID, e)
	}
	e.order, e.since = o, time.Now()
}

// doubt makes what is known of committed orders something to ask about: news may have been missed.
func (l *ledger) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.settled {
		e.since = time.Time{}
	}
}

// keep puts a committed entry into the ring, in the place of the oldest when the ring is full.
func (l *ledger) keep(id ID, e *entry) {
	l.settled[id] = e
	if len(l.committed) < l.max {
		l.committed = append(l.committed, e)
		return
	}
	l.forget(l.committed[l.next])
	l.committed[l.next] = e
	l.next = (l.next + 1) % l.max
}

func (l *ledger) forget(e *entry) {
	if l.known[e.identity] == e {
		delete(l.known, e.identity)
	}
	if l.settled[e.order.ID] == e {
		delete(l.settled, e.order.ID)
	}
}

// held finds the order of an identity, and the quantity it was asked for with.
func (l *ledger) held(who identity) (Order, int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	if !ok {
		return Order{}, 0, false
	}
	if _, pending := l.pending[e.order.ID]; !pending && time.Since(e.since) > knownFor {
		return Order{}, 0, false
	}
	return e.order, e.order.Quantity, true
}

// accepted finds an uncommitted order.
func (l *ledger) accepted(id ID) (Order, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.pending[id]
	if !ok {
		return Order{}, false
	}
	return e.order, true
}

// settle notes what became of an order in the database. One that holds nothing
// any more is not remembered: what its identity stands for then, Redis knows.
func (l *ledger) settle(id ID, status Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, uncommitted := l.pending[id]
	if uncommitted {
		delete(l.pending, id)
		l.claimed--
		e.order.ConfirmedAt, e.r = time.Now().UTC(), Reservation{}
	} else if e = l.settled[id]; e == nil {
		return
	}
	switch {
	case !status.Holds():
		l.forget(e)
	case uncommitted:
		l.keep(id, e)
	}
	e.order.Status, e.since = status, time.Now()
}

// overdue are uncommitted orders that nobody has asked about for so long. They
// count as asked about now.
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
