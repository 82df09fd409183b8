package httpapi

import (
	"bytes"
	"container/list"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/orders"
)

// queuePatience is how long a request waits for a slot. Requests that wait longer are refused.
const queuePatience = time.Second

// A runQueue lets few requests run at a time, first come, first served, until they wait for something else. The Go scheduler
// gives every runnable goroutine a turn: with thousands of concurrent requests each would get a little CPU time, and each
// decision in progress would wait for all of them when Redis has answered it.
//
// Requests that waited longer than queuePatience are refused, one at a time beside the running ones: a refusal costs as much as
// a part of a decision, and refusals must not keep the process from deciding. Safe for concurrent use.
type runQueue struct {
	slots int

	mu       sync.Mutex
	running  int       // guarded by mu
	refusing bool      // guarded by mu
	waiting  list.List // guarded by mu: *queuedRequest, in order of arrival
	late     list.List // guarded by mu: those that waited too long
}

type queuedRequest struct {
	since time.Time
	turn  chan bool // true: it runs, false: it is refused
}

func newRunQueue() *runQueue { return &runQueue{slots: runtime.GOMAXPROCS(0)} }

// enter waits for a slot. ok is false for a request that waited too long; s is then the slot for the refusal.
func (q *runQueue) enter() (s runSlot, ok bool) {
	q.mu.Lock()
	if q.running < q.slots {
		q.running++
		q.mu.Unlock()
		return runSlot{q, true}, true
	}
	r := &queuedRequest{time.Now(), make(chan bool, 1)}
	q.waiting.PushBack(r)
	q.mu.Unlock()
	if ok = <-r.turn; !ok {
		runtime.Gosched() // let all others run first
	}
	return runSlot{q, ok}, ok
}

func (q *runQueue) leave(ran bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ran {
		q.running--
	} else {
		q.refusing = false
	}
	now := time.Now()
	for e := q.waiting.Front(); e != nil && now.Sub(e.Value.(*queuedRequest).since) > queuePatience; e = q.waiting.Front() {
		q.late.PushBack(q.waiting.Remove(e))
	}
	if q.running < q.slots && q.waiting.Len() > 0 {
		q.running++
		q.waiting.Remove(q.waiting.Front()).(*queuedRequest).turn <- true
	}
	if !q.refusing && q.late.Len() > 0 {
		q.refusing = true
		q.late.Remove(q.late.Front()).(*queuedRequest).turn <- false
	}
}

// A runSlot is what a request holds while it runs. The zero value holds nothing.
type runSlot struct {
	of  *runQueue
	ran bool
}

// leave gives the slot to the next request, unless it was given before. Call it before waiting for anything.
func (s *runSlot) leave() {
	if s.of != nil {
		s.of.leave(s.ran)
		s.of = nil
	}
}

// queued runs new orders and reads in separate queues. Other requests, such as changes of existing orders, are not queued.
func (a *API) queued(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, queue := requestOf(c.Request().Context()), a.reads
		switch method, path := c.Request().Method, c.Path(); {
		case method == http.MethodPost && path == placePattern:
			queue = a.newOrders
			r.readAhead(placeRoute.MaxBodyBytes) // a slow sender must not hold a slot
		case method != http.MethodGet || path != salePattern && path != orderPattern:
			return next(c)
		}
		slot, ok := queue.enter()
		r.slot = slot
		defer r.slot.leave()
		c.Response().Before(r.slot.leave) // a slow reader must not hold a slot
		if ok {
			return next(c)
		}
		p := problem(string(orders.ReasonAtCapacity))
		p.retryAfter = a.capacity.later()
		a.answered(p, "", func() admission.Request { return a.requestAt(r) })
		return p
	}
}

// readAhead reads the body of an order, up to most bytes. Later readers get what has arrived by now, and its error, without
// waiting.
func (r *request) readAhead(most int64) {
	req := r.echo.Request()
	body, err := readBody(req, most)
	if err == nil {
		r.body = body
	}
	req.Body = &arrivedBody{*bytes.NewReader(body), err} // the server closes the original
}

// readBody reads at most most bytes, with one allocation if the client says how many there are.
func readBody(req *http.Request, most int64) ([]byte, error) {
	if req.ContentLength < 0 || req.ContentLength > most {
		return io.ReadAll(io.LimitReader(req.Body, most))
	}
	body := make([]byte, req.ContentLength)
	n, err := io.ReadFull(req.Body, body)
	return body[:n], err
}

// An arrivedBody is a body that was read, and the error that ended it early.
type arrivedBody struct {
	arrived bytes.Reader
	err     error
}

func (b *arrivedBody) Read(p []byte) (int, error) {
	n, err := b.arrived.Read(p)
	if err != nil && b.err != nil {
		err = b.err
	}
	return n, err
}

func (*arrivedBody) Close() error { return nil }
