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
	minDelay    = time.Second     // minimum delay of a task: Asynq's unit is one second
	maxDelay    = 2 * time.Minute // maximum delay, in case the estimate is wrong
	wakeWithin  = time.Second     // how long a woken task may take to arrive
	overdue     = 5 * time.Second // late by this long, a task is assumed to be in another process
	forgetAfter = time.Minute     // late by this long, it is assumed to be done
	maxBacklog  = 10_000          // tasks beyond this number are put back but not remembered
)

// A backlog remembers the tasks that this process has put back, in order of first arrival. Other processes may have put back the same tasks
// later, or completed them: the order is approximate, and never decides which task gets a permit.
type backlog struct {
	mu    sync.Mutex
	order *list.List               // guarded by mu: of *delayed
	tasks map[taskID]*list.Element // guarded by mu
	each  time.Duration            // guarded by mu: recent time per position of the semaphore's queue; 0: unknown
}

type taskID struct{ queue, id string }

func idOf(ctx context.Context) taskID {
	queue, _ := asynq.GetQueueName(ctx)
	id, _ := asynq.GetTaskID(ctx)
	return taskID{queue, id}
}

// A delayed task was put back.
type delayed struct {
	id    taskID
	back  time.Time // expected return
	woken time.Time // zero: not woken
	tries int
}

func newBacklog() *backlog {
	return &backlog{order: list.New(), tasks: map[taskID]*list.Element{}}
}

func (b *backlog) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.order.Len()
}

// returned records that a task has come back, and returns false for a task that is not in the backlog.
func (b *backlog) returned(id taskID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.tasks[id]
	if at != nil {
		at.Value.(*delayed).woken = time.Time{}
	}
	return at != nil
}

// drop removes a task.
func (b *backlog) drop(id taskID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.tasks[id]; at != nil {
		b.remove(at)
	}
}

// remove removes at. The caller holds mu.
func (b *backlog) remove(at *list.Element) {
	b.order.Remove(at)
	delete(b.tasks, at.Value.(*delayed).id)
}

// add adds a task unless it is there already, and returns the delay of its retry.
func (b *backlog) add(id taskID, full *semaphore.Refusal, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	for first := b.order.Front(); first != nil && now.Sub(first.Value.(*delayed).back) > forgetAfter; first = b.order.Front() {
		b.remove(first)
	}
	if full.Wait > 0 && full.Position > 0 {
		b.each = full.Wait / time.Duration(full.Position)
	}
	at := b.tasks[id]
	if at == nil && b.order.Len() < maxBacklog {
		at = b.order.PushBack(&delayed{id: id})
		b.tasks[id] = at
	}
	ahead := full.Position
	for before := b.order.Front(); before != nil && before != at; before = before.Next() {
		if now.Sub(before.Value.(*delayed).back) < overdue {
			ahead++
		}
	}
	expected := b.each * time.Duration(ahead)
	if at != nil && b.each == 0 { // no permit has been released yet
		expected = minDelay << min(at.Value.(*delayed).tries, 10)
	}
	delay := periodic.Jitter(min(max(expected, minDelay), maxDelay))
	if at != nil {
		at.Value.(*delayed).back = now.Add(delay)
		at.Value.(*delayed).tries++
	}
	return delay
}

// longest returns the tasks that have waited longest and have not been woken, all of one queue.
func (b *backlog) longest(most int, now time.Time) (ids []taskID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := b.order.Front(); at != nil && len(ids) < most; at = at.Next() {
		a := at.Value.(*delayed)
		if now.Sub(a.woken) >= wakeWithin && (len(ids) == 0 || ids[0].queue == a.id.queue) {
			ids = append(ids, a.id)
		}
	}
	return ids
}

// woken records that a task was woken.
func (b *backlog) woken(id taskID, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.tasks[id]; at != nil {
		at.Value.(*delayed).woken = now
	}
}
