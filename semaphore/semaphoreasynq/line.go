package semaphoreasynq

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/semaphore"
)

const (
	soonest   = time.Second     // minimum delay of a task: Asynq's unit is one second
	latest    = 2 * time.Minute // maximum delay, in case the estimate is wrong
	onItsWay  = time.Second     // how long a woken task may take to arrive
	missing   = 5 * time.Second // overdue by this long, a task is assumed to be in another process
	forgotten = time.Minute     // overdue by this long, it is assumed to be done
	lineRoom  = 10_000          // tasks beyond this number are put back but not remembered
)

// A line remembers the tasks that this process has put back, in order of first arrival. Other processes may have put back the same tasks
// later, or completed them: the order is approximate, and never decides which task gets a permit.
type line struct {
	mu    sync.Mutex
	order *list.List               // guarded by mu: of *away
	tasks map[taskID]*list.Element // guarded by mu
	each  time.Duration            // guarded by mu: recent time per position of the semaphore's queue; 0: unknown
}

type taskID struct{ queue, id string }

func idOf(ctx context.Context) taskID {
	queue, _ := asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	return taskID{queue, id}
}

// away is a task that was put back.
type away struct {
	id    taskID
	back  time.Time // expected return
	woken time.Time // zero: not woken
	tries int
}

func newLine() *line {
	return &line{order: list.New(), tasks: map[taskID]*list.Element{}}
}

func (l *line) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order.Len()
}

// came records that a task has returned, and returns false for a task that is not in the line.
func (l *line) came(id taskID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tasks[id]
	if at != nil {
		at.Value.(*away).woken = time.Time{}
	}
	return at != nil
}

// leave removes a task from the line.
func (l *line) leave(id taskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.tasks[id]; at != nil {
		l.remove(at)
	}
}

// remove removes at. The caller holds mu.
func (l *line) remove(at *list.Element) {
	l.order.Remove(at)
	delete(l.tasks, at.Value.(*away).id)
}

// join adds a task to the line unless it is in it, and returns how long it should be away.
func (l *line) join(id taskID, full *semaphore.CapacityError, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for first := l.order.Front(); first != nil && now.Sub(first.Value.(*away).back) > forgotten; first = l.order.Front() {
		l.remove(first)
	}
	if full.Wait > 0 && full.Position > 0 {
		l.each = full.Wait / time.Duration(full.Position)
	}
	at := l.tasks[id]
	if at == nil && l.order.Len() < lineRoom {
		at = l.order.PushBack(&away{id: id})
		l.tasks[id] = at
	}
	ahead := full.Position
	for before := l.order.Front(); before != nil && before != at; before = before.Next() {
		if now.Sub(before.Value.(*away).back) < missing {
			ahead++
		}
	}
	expected := l.each * time.Duration(ahead)
	if at != nil && l.each == 0 { // no permit has been released yet
		expected = soonest << min(at.Value.(*away).tries, 10)
	}
	delay := periodic.Jitter(min(max(expected, soonest), latest))
	if at != nil {
		at.Value.(*away).back = now.Add(delay)
		at.Value.(*away).tries++
	}
	return delay
}

// next returns the first tasks of the line that have not been woken, all of one queue.
func (l *line) next(most int, now time.Time) (ids []taskID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := l.order.Front(); at != nil && len(ids) < most; at = at.Next() {
		a := at.Value.(*away)
		if now.Sub(a.woken) >= onItsWay && (len(ids) == 0 || ids[0].queue == a.id.queue) {
			ids = append(ids, a.id)
		}
	}
	return ids
}

// wake records that a task was woken.
func (l *line) wake(id taskID, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.tasks[id]; at != nil {
		at.Value.(*away).woken = now
	}
}
