package orders

import (
	"sync"
	"time"
)

// ledger is this process's copy of the orders it accepted: the second one
// beside Redis until the database has them, and then a memory of who holds
// what, so that a repeated click is known as one. Safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	max     int
	claimed int              // uncommitted entries and decisions under way
	epochs  map[string]int64 // by sale: what was reserved in an earlier one is too late to be remembered
	pending map[ID]*entry
	known   map[identity]*entry // of pending and remembered ones
	past    []*entry            // those remembered that are not pending, a ring of at most max
	next    int                 // where in the ring the oldest stands
	recent  []settled           // those that the database has had for less than recentFor, at most max, the oldest first
}

// recentFor is for how long an order is remembered behind its commit: a standby
// that takes over the database may lack what was committed last.
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

// kind is what is certain about an order that the ledger knows.
type kind int

const (
	pending   kind = iota // the database does not have it, as far as this process was told
	committed             // the database has it, and it may change there
	final                 // it will not change any more
)

func newLedger(most int) *ledger {
	return &ledger{
		max: most, epochs: make(map[string]int64),
		pending: make(map[ID]*entry), known: make(map[identity]*entry),
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

// add remembers an order in the room that was claimed for it, and the term of the lease in which it is accepted, or was found in Redis again.
// It returns false when the epoch of its reservation is over: nobody would look for it any more.
func (l *ledger) add(who identity, r Reservation, term int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Epoch < l.epochs[r.Sale] {
		return false
	}
	if e, twice := l.pending[r.ID]; twice {
		e.term = term
		l.claimed--
		return true
	}
	e := &entry{identity: who, r: r, order: r.Accepted(), term: term, since: time.Now()}
	l.pending[r.ID], l.known[who] = e, e
	return true
}

// enter notes that a sale is in an epoch, and returns what is remembered of
// earlier ones: orders that are not committed, and those that were a moment ago.
func (l *ledger) enter(sale string, epoch int64) (uncommitted, committed []Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epochs[sale] = epoch
	return l.uncommitted(func(r *Reservation) bool { return r.Sale == sale && r.Epoch < epoch }),
		l.settled(func(r *Reservation) bool { return r.Sale == sale && r.Epoch < epoch })
}

// committed are the orders that were committed a moment ago.
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

// learn remembers a committed order by who asked for it. Without a key the
// memory of one that is over would stand in the way of the buyer's next.
func (l *ledger) learn(who identity, o Order) {
	what := committed
	if o.Status == StatusPaid || o.Status == StatusConfirmed && o.PayBefore.IsZero() {
		what = final
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e, ok := l.known[who]; {
	case !o.Status.Holds() && who.key == "":
		if ok && e.order.ID == o.ID && e.what != pending {
			delete(l.known, who)
		}
	case !ok || e.order.ID != o.ID:
		l.remember(&entry{identity: who, what: what, order: o})
	case e.what != pending: // which ends when its commit is heard of
		e.what, e.order = what, o
	}
}

// remember keeps a committed order in the place of the oldest.
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

// drop forgets a committed order that its buyer holds no longer.
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

// held finds the order of an identity. One that is pending here may be
// committed, and the news be lost.
func (l *ledger) held(who identity) (o Order, what kind, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	if !ok {
		return Order{}, 0, false
	}
	return e.order, e.what, true
}

// promised tells whether the pending order of an identity was accepted in that term of the lease.
func (l *ledger) promised(who identity, term int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[who]
	return ok && e.what == pending && e.term == term
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

// settle notes what the database says that the order is.
func (l *ledger) settle(id ID, status Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.pending[id]
	if !ok {
		return
	}
	delete(l.pending, id)
	l.claimed--
	r := e.r
	e.what, e.r = committed, Reservation{} // to remember the order needs less
	if status.Holds() && l.known[e.identity] == e {
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
	if status.Holds() {
		l.recent = append(l.recent, settled{r, now})
	}
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
