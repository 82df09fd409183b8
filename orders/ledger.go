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
	claimed   int // uncommitted entries and decisions under way
	pending   map[ID]*entry
	known     map[identity]*entry
	committed []*entry // the known ones in the order of their commits, a ring of at most max
	next      int      // where in the ring the oldest stands
}

// identity is what a repeated request shares with the first.
type identity struct {
	item       int
	buyer, key string
}

type entry struct {
	identity
	r     Reservation
	order Order
	since time.Time // accepted here, or asked about last
}

func newLedger(most int) *ledger {
	return &ledger{max: most, pending: make(map[ID]*entry), known: make(map[identity]*entry)}
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

// add remembers an order in the room that was claimed for it.
func (l *ledger) add(who identity, r Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{identity: who, r: r, order: r.Accepted(), since: time.Now()}
	l.pending[r.ID], l.known[who] = e, e
}

// learn remembers who holds an order that is committed.
func (l *ledger) learn(who identity, o Order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[who]; !ok {
		e := &entry{identity: who, order: o}
		l.known[who] = e
		l.keep(e)
	}
}

// keep puts a committed entry into the ring, in the place of the oldest when the ring is full.
func (l *ledger) keep(e *entry) {
	if len(l.committed) < l.max {
		l.committed = append(l.committed, e)
		return
	}
	oldest := l.committed[l.next]
	if l.known[oldest.identity] == oldest {
		delete(l.known, oldest.identity)
	}
	l.committed[l.next] = e
	l.next = (l.next + 1) % l.max
}

// held finds the order of an identity, and the quantity it was asked for with.
func (l *ledger) held(who identity) (Order, int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	if !ok {
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

// settle notes that the database has the order now. One that holds nothing any
// more is not remembered: what its identity stands for then, Redis knows.
func (l *ledger) settle(id ID, status Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.pending[id]
	if !ok {
		return
	}
	delete(l.pending, id)
	l.claimed--
	e.order.Status, e.order.ConfirmedAt, e.r = status, time.Now().UTC(), Reservation{}
	if !status.Holds() {
		if l.known[e.identity] == e {
			delete(l.known, e.identity)
		}
		return
	}
	l.keep(e)
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
