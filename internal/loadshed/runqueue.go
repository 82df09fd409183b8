package loadshed

import (
	"container/list"
	"runtime"
	"sync"
	"time"
)

// QueueTimeout is the maximum time that a request waits for a slot. Requests that wait longer are refused.
const QueueTimeout = time.Second

// A RunQueue lets few requests run at a time, first come, first served, until they wait for something else. The Go scheduler
// gives every runnable goroutine a turn: with thousands of concurrent requests each would get a little CPU time, and each
// decision in progress would wait for all of them when Redis has answered it.
//
// Requests that waited longer than QueueTimeout are refused, one at a time beside the running ones: a refusal costs as much as
// a part of a decision, and refusals must not keep the process from deciding. Safe for concurrent use.
type RunQueue struct {
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

// NewRunQueue makes a queue with a slot per CPU.
func NewRunQueue() *RunQueue { return &RunQueue{slots: runtime.GOMAXPROCS(0)} }

// Enter waits for a slot. ok is false for a request that waited too long; s is then the slot for the refusal.
func (q *RunQueue) Enter() (s Slot, ok bool) {
	q.mu.Lock()
	if q.running < q.slots {
		q.running++
		q.mu.Unlock()
		return Slot{q, true}, true
	}
	r := &queuedRequest{time.Now(), make(chan bool, 1)}
	q.waiting.PushBack(r)
	q.mu.Unlock()
	if ok = <-r.turn; !ok {
		runtime.Gosched() // let all others run first
	}
	return Slot{q, ok}, ok
}

func (q *RunQueue) leave(ran bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ran {
		q.running--
	} else {
		q.refusing = false
	}
	now := time.Now()
	for e := q.waiting.Front(); e != nil && now.Sub(e.Value.(*queuedRequest).since) > QueueTimeout; e = q.waiting.Front() {
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

// A Slot is what a request holds while it runs. The zero value holds nothing.
type Slot struct {
	of  *RunQueue
	ran bool
}

// Leave gives the slot to the next request, unless it was given before. Call it before waiting for anything.
func (s *Slot) Leave() {
	if s.of != nil {
		s.of.leave(s.ran)
		s.of = nil
	}
}
