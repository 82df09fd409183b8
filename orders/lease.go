package orders

import (
	"sync"
	"time"
)

// lease is the time during which this process may accept orders. A heartbeat that reached the database renews it. It ends
// before any observer considers the process silent, so a process that a recovery does not wait for accepts nothing. It uses the
// monotonic clock of this process. The zero value is a lease that has not begun. Safe for concurrent use.
type lease struct {
	mu    sync.Mutex
	until time.Time
	term  int64 // counts the times the lease began
}

// renew extends the lease for a heartbeat that was sent at sent and answered at now.
func (l *lease) renew(sent, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.until) {
		l.term++
	}
	if until := sent.Add(leaseFor); until.After(l.until) {
		l.until = until
	}
}

// held returns the term of the lease, and whether the process holds it. Between two terms a sale may have been recovered
// without this process, so replies and acceptances of one term are not relied on in another.
func (l *lease) held(now time.Time) (term int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, now.Before(l.until)
}

// end gives the lease up.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = time.Time{}
}
