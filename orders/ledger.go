package orders

import (
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
	known   map[identity]*entry // of pending and remembered ones
	past    []*entry            // those remembered that are not pending, a ring of at most max
	next    int                 // index of the oldest in the ring
	recent  []settled           // those that the database has had for less than recentFor, at most max, the oldest first
}

// recentFor is how long an order is remembered after its commit: a standby that takes over the database may lack the last
// commits.
const recentFor = 10 * time.Second

type settled struct {
	r  Reservation
	at time.Time
}

// identity is what a repeated request shares with the first.
type identity struct {
	item       int
	buyer, key string
}

type entry struct {
	identity
	what  kind
	r     Reservation // while it is pending
	order Order       // as it was seen last
	term  int64       // of the lease in which it was accepted, or last found in Redis
	since time.Time   // accepted here, or asked about last
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
		pending: make(map[ID]*entry), known: make(map[identity]*entry),
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
	e := &entry{identity: who, r: r, order: r.Accepted(), term: term, since: time.Now()}
	l.pending[r.ID], l.known[who] = e, e
	return true
}

// enter records the current epoch of a sale, and returns the remembered orders of earlier epochs: uncommitted ones, and those
// committed recently.
func (l *ledger) enter(sale string, epoch int64) (uncommitted, committed []Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs[sale] = epoch
	return l.uncommitted(func(r *Reservation) bool { return r.Sale == sale && r.Epoch < epoch }),
		l.settled(func(r *Reservation) bool { return r.Sale == sale && r.Epoch < epoch })
}

// committed returns the orders that were committed recently.
func (l *ledger) committed() []Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settled(func(*Reservation) bool { return true })
}

func (l *ledger) settled(is func(*Reservation) bool) []Reservation {
	var list []Reservation
	for i := range l.recent {
		if is(&l.recent[i].r) {
			list = append(list, l.recent[i].r)
		}
	}
	return list
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
	switch e, ok := l.known[who]; {
	case !o.Status.OwnsUnits() && who.key == "":
		if ok && e.order.ID == o.ID && e.what != pending {
			delete(l.known, who)
		}
	case !ok || e.order.ID != o.ID:
		l.remember(&entry{identity: who, what: what, order: o})
	case e.what != pending: // a pending one ends when its commit is reported
		e.what, e.order = what, o
	}
}

// remember keeps a committed order, and replaces the oldest if the ring is full.
func (l *ledger) remember(e *entry) {
	l.known[e.identity] = e
	if len(l.past) < l.max {
		l.past = append(l.past, e)
		return
	}
	l.forget(l.past[l.next])
	l.past[l.next] = e
	l.next = (l.next + 1) % l.max
}

// drop removes a committed order that its buyer no longer holds.
func (l *ledger) drop(who identity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.known[who]; ok && e.what != pending {
		delete(l.known, who)
	}
}

func (l *ledger) forget(e *entry) {
	if l.known[e.identity] == e {
		delete(l.known, e.identity)
	}
}

// held returns the order of an identity. An order that is pending here may be committed if the notification was lost.
func (l *ledger) held(who identity) (o Order, what kind, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	if !ok {
		return Order{}, 0, false
	}
	return e.order, e.what, true
}

// promised reports whether the pending order of an identity was accepted in that term of the lease.
func (l *ledger) promised(who identity, term int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	return ok && e.what == pending && e.term == term
}

// accepted returns an uncommitted order.
func (l *ledger) accepted(id ID) (Order, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.pending[id]
	if !ok {
		return Order{}, false
	}
	return e.order, true
}

// settle records the status of an order in the database.
func (l *ledger) settle(id ID, status Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.pending[id]
	if !ok {
		return
	}
	delete(l.pending, id)
	l.inUse--
	r := e.r
	e.what, e.r = committed, Reservation{} // the reservation is kept in recent only
	if status.OwnsUnits() && l.known[e.identity] == e {
		l.remember(e)
	} else {
		l.forget(e)
	}
	now := time.Now()
	old := 0
	for old < len(l.recent) && (now.Sub(l.recent[old].at) > recentFor || len(l.recent)-old >= l.max) {
		old++
	}
	l.recent = l.recent[old:]
	if status.OwnsUnits() {
		l.recent = append(l.recent, settled{r, now})
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
