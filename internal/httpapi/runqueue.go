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

// queuePatience is how long a request waits for a slot. Who waited longer is told to come back.
const queuePatience = time.Second

// A runQueue lets few requests run at a time until they ask something else, first come, first served. The Go scheduler gives every runnable
// goroutine its turn, so of thousands of requests that come together each would get a little of the CPU, and each decision that is under way
// would wait for all of them whenever Redis has answered it.
//
// Who waited too long is refused, one at a time beside the others: to refuse costs as much as a part of a decision, and
// must not keep the process from deciding. Safe for concurrent use.
type runQueue struct {
	slots int

	mu       sync.Mutex
	running  int       // guarded by mu
	refusing bool      // guarded by mu
	waiting  list.List // guarded by mu: *queuedRequest, the first come first
	late     list.List // guarded by mu: the same of those who waited too long
}

type queuedRequest struct {
	since time.Time
	turn  chan bool // true: it runs, false: it is refused
}

func newRunQueue() *runQueue { return &runQueue{slots: runtime.GOMAXPROCS(0)} }

// enter waits for a slot. It is not ok for who waited too long, and holds the one to be refused in.
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
		runtime.Gosched() // all others first
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

// A runSlot is what a request holds while it runs. The zero value is none.
type runSlot struct {
	of  *runQueue
	ran bool
}

// leave gives the slot to the next request, if it was not given before. Who is about to wait for something must leave.
func (s *runSlot) leave() {
	if s.of != nil {
		s.of.leave(s.ran)
		s.of = nil
	}
}

// queued lets new orders and reads each run in a queue of their own. What becomes of an order that stands does not queue.
func (a *API) queued(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, queue := requestOf(c.Request().Context()), a.reads
		switch method, path := c.Request().Method, c.Path(); {
		case method == http.MethodPost && path == placePattern:
			queue = a.newOrders
			r.readAhead(placeRoute.MaxBodyBytes) // nobody may hold a slot and be slow to send the rest
		case method != http.MethodGet || path != salePattern && path != orderPattern:
			return next(c)
		}
		slot, ok := queue.enter()
		r.slot = slot
		defer r.slot.leave()
		c.Response().Before(r.slot.leave) // nobody may hold a slot and be slow to read the answer
		if ok {
			return next(c)
		}
		p := problem(string(orders.ReasonAtCapacity))
		p.retryAfter = a.capacity.later()
		a.answered(p, "", func() admission.Request { return a.requestAt(r) })
		return p
	}
}

// readAhead reads the body of an order as far as anybody looks at it. Who reads it later finds what has arrived by now, and how it failed, but
// waits for nothing.
func (r *request) readAhead(most int64) {
	req := r.echo.Request()
	body, err := io.ReadAll(io.LimitReader(req.Body, most))
	arrived := io.Reader(bytes.NewReader(body))
	if err == nil {
		r.body = body
	} else {
		arrived = io.MultiReader(arrived, failedReader{err})
	}
	req.Body = io.NopCloser(arrived) // the server closes its own
}

// A failedReader is a body that did not arrive as a whole.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }
