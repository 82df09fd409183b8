package memory

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/orders/internal/tasks"
)

// QueueOptions are those of NewQueue. The zero value is a queue without faults.
type QueueOptions struct {
	Rand *rand.Rand // of faults; used under the queue's lock; nil: seeded by the system
	// Lease is after what time a task of a process that has left is given to another. Default 30 s, as Asynq's.
	Lease time.Duration
	// LateIn and TwiceIn are once in how many tasks one comes up to 10 s late, or a second time. Zero: never.
	LateIn, TwiceIn int
}

// A Queue takes tasks to workers. It promises what Asynq does: that a task comes at least once unless Drop loses it, perhaps
// late, twice or out of order. Connect gives it to a process. Safe for concurrent use.
type Queue struct {
	opts QueueOptions

	mu      sync.Mutex
	waiting []*queued     // guarded by mu
	changed chan struct{} // closed and replaced at each change; guarded by mu
}

// queued is a task in a queue.
type queued struct {
	tasks.Task
	due    time.Time
	active bool
	given  bool // once or more
}

// ErrQueueDown is the error of a queue for a process that is disconnected.
var ErrQueueDown = errors.New("memory: the queue is not reachable")

// NewQueue returns an empty queue.
func NewQueue(opts QueueOptions) *Queue {
	if opts.Rand == nil {
		opts.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	opts.Lease = cmp.Or(opts.Lease, 30*time.Second)
	return &Queue{opts: opts, changed: make(chan struct{})}
}

// Drop loses all tasks.
func (q *Queue) Drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = nil
	q.change()
}

// Connect returns the queue as a process reaches it.
func (q *Queue) Connect() *QueueConn { return &QueueConn{q: q} }

// change is called with mu locked.
func (q *Queue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// oneIn is called with mu locked.
func (q *Queue) oneIn(n int) bool { return n > 0 && q.opts.Rand.IntN(n) == 0 }

// add is called with mu locked.
func (q *Queue) add(t tasks.Task, delay time.Duration) {
	if q.oneIn(q.opts.LateIn) {
		delay += time.Duration(q.opts.Rand.IntN(10_000)) * time.Millisecond
	}
	q.waiting = append(q.waiting, &queued{Task: t, due: time.Now().Add(delay)})
	q.change()
}

// next takes a task that is due, or returns when the next one is, and a channel that is closed at a change.
func (q *Queue) next(queues []string) (t *queued, wait time.Duration, changed <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait = time.Hour
	for _, at := range q.waiting {
		if at.active || !slices.Contains(queues, at.Queue) {
			continue
		}
		if left := time.Until(at.due); left > 0 {
			wait = min(wait, left)
			continue
		}
		at.active = true
		if !at.given && q.oneIn(q.opts.TwiceIn) {
			q.waiting = append(q.waiting, &queued{Task: at.Task, due: time.Now(), given: true})
			q.change()
		}
		at.given = true
		return at, 0, nil
	}
	return nil, wait, q.changed
}

// end removes a task, or has it come again after a delay.
func (q *Queue) end(t *queued, again bool, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if again {
		t.active, t.due = false, time.Now().Add(delay)
	} else {
		q.waiting = slices.DeleteFunc(q.waiting, func(at *queued) bool { return at == t })
	}
	q.change()
}

// A QueueConn is a queue as one process reaches it; it is a shop.Queue.
type QueueConn struct {
	q    *Queue
	down atomic.Bool
}

// Disconnect ends the connection for good. Tasks that the process has come again after the lease.
func (c *QueueConn) Disconnect() { c.down.Store(true) }

// Spread is one: there is one server.
func (*QueueConn) Spread() int { return 1 }

// Put adds a task unless the queue has it.
func (c *QueueConn) Put(_ context.Context, t tasks.Task, delay time.Duration) error {
	if c.down.Load() {
		return ErrQueueDown
	}
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	if !slices.ContainsFunc(c.q.waiting, func(at *queued) bool { return at.ID == t.ID && at.Queue == t.Queue }) {
		c.q.add(t, delay)
	}
	return nil
}

// Work gives tasks to w until ctx ends.
func (c *QueueConn) Work(ctx context.Context, w tasks.Worker) error {
	var working sync.WaitGroup
	defer working.Wait()
	free := make(chan struct{}, w.Concurrent)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		t, err := c.await(ctx, w.Queues)
		if err != nil {
			return nil //nolint:nilerr // the end of ctx is the end of work
		}
		working.Go(func() {
			defer func() { <-free }()
			err := w.Handle(context.WithoutCancel(ctx), t.Task)
			switch {
			case c.down.Load():
				c.q.end(t, true, c.q.opts.Lease)
			case err == nil || errors.Is(err, tasks.ErrDrop):
				c.q.end(t, false, 0)
			default:
				c.q.end(t, true, w.Delay(err))
			}
		})
	}
}

// await returns the next task, or the error of ctx.
func (c *QueueConn) await(ctx context.Context, queues []string) (*queued, error) {
	for {
		if c.down.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		t, wait, changed := c.q.next(queues)
		if t != nil {
			return t, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// Tasks counts the tasks of queues by state.
func (c *QueueConn) Tasks(_ context.Context, queues []string) (map[string]int, error) {
	if c.down.Load() {
		return nil, ErrQueueDown
	}
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	counts := make(map[string]int)
	for _, at := range c.q.waiting {
		if slices.Contains(queues, at.Queue) {
			state := "pending"
			if at.active {
				state = tasks.Active
			}
			counts[state]++
		}
	}
	return counts, nil
}
