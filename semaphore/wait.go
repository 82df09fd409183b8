package semaphore

import (
	"container/list"
	"context"
	"errors"
	"net"
	"time"
)

// A wait is a place in the queue with its callers in this process: several if a request was sent more than once.
type wait struct {
	ticket ticket
	shared bool // other requests may use its key
	at     *list.Element

	// All guarded by the lane's mu.
	seats    []*seat
	failed   int           // asks that timed out before it was queued
	queued   bool          // Redis has confirmed that it is in the queue
	guest    bool          // the place was created by another process
	asking   int           // asks in flight
	place    int           // last known position; 0: none
	expected time.Duration // estimated time until its turn
	over     bool          // answered, or without callers
	left     bool          // all callers have given up
}

// A seat is one waiting caller.
type seat struct {
	wait   *wait
	answer chan answered // capacity 1
}

type answered struct {
	held held
	err  error
}

const patient = 2 // how often a wait asks again before it fails with the timeout

// await waits for a permit until ctx ends.
func (l *lane) await(ctx context.Context, t ticket, shared bool) (held, error) {
	s, err := l.join(t, shared)
	if err != nil {
		return held{}, err
	}
	select {
	case a := <-s.answer:
		return a.held, a.err
	case <-ctx.Done():
		return l.quit(ctx, s)
	}
}

// join adds a caller to the queue.
func (l *lane) join(t ticket, shared bool) (*seat, error) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return nil, ErrClosed
	}
	w := l.waits[t.key]
	if w == nil {
		w = &wait{ticket: t, shared: shared}
		w.at = l.order.PushBack(w)
		l.waits[t.key] = w
	}
	s := &seat{w, make(chan answered, 1)}
	w.seats = append(w.seats, s)
	if l.beat == nil {
		l.beat = time.AfterFunc(heartbeat, l.beatNow)
	}
	l.enqueue(l.ask(w, false))
	l.mu.Unlock()
	return s, nil
}

// quit removes a caller from the queue, unless the answer has arrived.
func (l *lane) quit(ctx context.Context, s *seat) (held, error) {
	l.mu.Lock()
	select {
	case a := <-s.answer:
		l.mu.Unlock()
		return a.held, a.err
	default:
	}
	w := s.wait
	err := ctx.Err()
	if w.place > 0 {
		err = &CapacityError{Name: w.ticket.names[0], Position: w.place, Wait: w.expected, Err: err}
	}
	for i, other := range w.seats {
		if other == s {
			w.seats = append(w.seats[:i:i], w.seats[i+1:]...)
		}
	}
	if len(w.seats) == 0 {
		w.left = true
		l.remove(w)
		l.enqueue(releaseOf(&w.ticket, abandoned(w.shared)))
	}
	l.mu.Unlock()
	return held{}, err
}

// remove removes w. The caller holds mu.
func (l *lane) remove(w *wait) {
	w.over = true
	l.order.Remove(w.at)
	delete(l.waits, w.ticket.key)
}

// answer passes the result to all seats of w. The caller holds mu.
func (l *lane) answer(w *wait, h held, err error) {
	l.remove(w)
	for _, s := range w.seats {
		s.answer <- answered{h, err}
	}
}

// ask returns the operation that asks for the permit of w, for the first time or again. The caller holds mu.
func (l *lane) ask(w *wait, beat bool) *op {
	w.asking++
	o := askFor(&w.ticket, true)
	o.heard = func(r reply) { l.asked(w, r, beat) }
	return o
}

// asked handles the reply to an ask.
func (l *lane) asked(w *wait, r reply, beat bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.asking--
	if beat && l.beat != nil && r.err == nil && r.word != isWaiting {
		l.beat.Reset(0) // no message announced it: there may be more
	}
	switch {
	case w.left && r.word == isGranted:
		l.enqueue(releaseOf(&w.ticket, abandoned(w.shared))) // all callers gave up while the ask was in flight
	case w.over:
	case r.word == isGranted:
		t := w.ticket
		t.token = r.token
		l.answer(w, held{t, r.lease, r.sent}, nil)
	case r.word == isWaiting:
		l.listen()
		again := r.fresh && w.queued
		w.guest = w.guest || !r.fresh && !w.queued
		w.queued, w.place, w.expected = true, r.place, r.wait
		if again {
			l.askAgain(w)
		}
		if l.beat != nil && r.soon < heartbeat && beat {
			l.beat.Reset(max(r.soon, soonest))
		}
	case r.err != nil && w.queued && !l.ended:
		// It keeps its place and asks again with the next heartbeat.
	case isTimeout(r.err) && w.failed < patient && !l.ended:
		w.failed++ // overload is not an outage
		l.enqueue(l.ask(w, false))
	default:
		l.answer(w, held{}, r.problem())
		if r.err != nil { // the outcome in Redis is unknown
			l.enqueue(releaseOf(&w.ticket, abandoned(w.shared)))
		}
	}
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// askAgain is called when w was in the queue and no longer is: Redis has lost its data, or has considered this process dead. All other
// waits ask again in their order. The caller holds mu.
func (l *lane) askAgain(first *wait) {
	for at := l.order.Front(); at != nil; at = at.Next() {
		if w := at.Value.(*wait); w != first && w.queued {
			w.queued = false
			l.enqueue(l.ask(w, false))
		}
	}
}

// beatNow sends a heartbeat. It asks again for the first wait of each semaphore, and for waits whose place another process created. Redis
// thereby sees that the process is alive, lost messages are made up for, and expired leases are noticed.
func (l *lane) beatNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.order.Len() == 0 || l.ended {
		l.beat = nil
		return
	}
	l.beat.Reset(heartbeat)
	seen := map[string]bool{}
	for at := l.order.Front(); at != nil; at = at.Next() {
		w, first := at.Value.(*wait), false
		for _, name := range w.ticket.names {
			first = first || !seen[name]
			seen[name] = true
		}
		if (first || w.guest) && w.asking == 0 {
			l.enqueue(l.ask(w, true))
		}
	}
}

// beatSoon sends a heartbeat at once if there are waits.
func (l *lane) beatSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.beat != nil {
		l.beat.Reset(0)
	}
}

// come asks again for an announced permit of name. If no caller waits for it any more, the permit is given up; otherwise Redis would
// consider the process dead.
func (l *lane) come(key, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.waits[key]; w != nil {
		l.enqueue(l.ask(w, false))
	} else {
		l.enqueue(releaseOf(&ticket{key: key, names: []string{name}}, place))
	}
}

// granted handles a permit that came with the reply to another operation. If no caller waits for it any more, it is given back.
func (l *lane) granted(h held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waits[h.key]
	if w == nil {
		l.enqueue(releaseOf(&h.ticket, h.token))
		return
	}
	token := h.token
	h.ticket = w.ticket
	h.token = token
	l.answer(w, h, nil)
}
