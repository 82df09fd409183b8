// Package queue puts accepted orders into the task queue.
package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/batch"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// TaskType is the version of a task, which is a list of orders: a worker leaves other types to later workers.
const TaskType = "orders:commit"

const TaskMax = 500 // orders of a task

// A process rests after each task while the orders of the next one arrive, because a task and its transaction cost as much CPU time as
// several orders. There is no rest while orders come too seldom for it to pay, and an order that arrives after a rest does not wait. Any
// other is committed later by up to the rest.
const (
	gatherFor  = 5 * time.Millisecond  // the shortest rest
	gatherMost = 40 * time.Millisecond // the longest
	// A rest is longer than gatherFor, in proportion, if on average more than gatherLonger orders arrive while a task is sent. That is so
	// where the processors are busy, whatever their speed, and where Redis is slow or far away.
	gatherLonger = 3
	// gatherEnough waiting orders end a rest: half of what a transaction holds, so that the tasks of two processes fit into one.
	gatherEnough = TaskMax / 2
)

// gatherer decides how long a process rests after each task.
type gatherer struct {
	pace     batch.Pace
	arriving float64 // moving average of the orders that arrive while a task is sent
}

// rest returns how long to rest after a task of sent orders, while the sending of which others arrived.
func (g *gatherer) rest(sent, arrived int, now time.Time) time.Duration {
	if sent < TaskMax { // else some of those that wait did not fit into the task
		// A slow task counts no more than the orders that make the longest rest.
		const most = float64(gatherLonger * (gatherMost / gatherFor))
		g.arriving += (min(float64(arrived), most) - g.arriving) / 8
	}
	if g.pace.Add(sent, now); !g.pace.Pays(gatherFor, now) {
		return 0
	}
	return time.Duration(max(1, g.arriving/gatherLonger) * float64(gatherFor))
}

// enqueueTimeout is for one attempt, of two.
const enqueueTimeout = time.Second

// SweepAge is how old an order in the outbox is when the sweeper takes it. Asynq itself finds a dead worker's tasks after one to
// two minutes.
const SweepAge = 5 * time.Second

// Offered is a reservation on its way into the queue.
type Offered struct {
	R    orders.Reservation
	from trace.SpanContext // of the request that reserved or repeated the order
}

// Enqueuer hands accepted orders to the queue.
type Enqueuer struct {
	*core.Core
	Queue  tasks.Queue
	offers chan Offered
}

// New returns the part, which puts tasks into q.
func New(c *core.Core, q tasks.Queue) *Enqueuer {
	return &Enqueuer{Core: c, Queue: q, offers: make(chan Offered, 16_384)}
}

// Offer hands a reservation to enqueue. If that cannot keep up, the sweeper finds it in the outbox.
func (e *Enqueuer) Offer(r orders.Reservation, from trace.SpanContext) {
	select {
	case e.offers <- Offered{r, from}:
	default:
	}
}

// Enqueue puts offered reservations into the queue until ctx ends. Reservations that arrive while a task is being sent, and
// during a rest after it, form the next, up to TaskMax.
//
// It is not a batch.Batcher: a rest begins at the end of a task, its length varies, and orders beyond the channel's room are left to the
// sweeper.
func (e *Enqueuer) Enqueue(ctx context.Context) error {
	var gather gatherer
	var restUntil time.Time
	for {
		var list []Offered
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-e.offers:
			list = append(list, o)
		}
		for left := time.Until(restUntil); left > 0 && len(e.offers) < gatherEnough; left = time.Until(restUntil) {
			select {
			case <-ctx.Done(): // the outbox has the orders
				return ctx.Err()
			case <-time.After(min(left, gatherFor)):
			}
		}
		for more := true; more && len(list) < TaskMax; {
			select {
			case o := <-e.offers:
				list = append(list, o)
			default:
				more = false
			}
		}
		e.EnqueueTask(ctx, list)
		now := time.Now()
		restUntil = now.Add(gather.rest(len(list), len(e.offers), now))
	}
}

// EnqueueTask leaves failures to the sweeper: perhaps only the reply was lost, and the outbox has the orders in any case.
func (e *Enqueuer) EnqueueTask(ctx context.Context, offered []Offered) {
	list := make([]orders.Reservation, len(offered))
	for i := range offered {
		list[i] = offered[i].R
	}
	id, queue := uuid.NewString(), e.QueueName(int(list[0].ID[15])%e.Queue.Spread())
	spans, headers := e.traceEnqueue(ctx, offered, id, queue)
	err := e.putWithin(ctx, list, tasks.Task{Queue: queue, ID: id, Headers: headers})
	if err != nil && ctx.Err() == nil { // the connection may be dead, and is replaced
		err = e.putWithin(ctx, list, tasks.Task{Queue: queue, ID: id, Headers: headers})
	}
	for _, span := range spans {
		core.EndSpan(span, err)
	}
	if err != nil && ctx.Err() == nil {
		e.Logger.DebugContext(ctx, "left to the sweeper", slog.Int("orders", len(list)), slog.Any("error", err))
	}
}

// putWithin bounds the time for which one connection holds up the tasks of all sales.
func (e *Enqueuer) putWithin(ctx context.Context, list []orders.Reservation, t tasks.Task) error {
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	return e.Put(ctx, list, t, 0)
}

// Put adds a task with a list of orders.
func (e *Enqueuer) Put(ctx context.Context, list []orders.Reservation, t tasks.Task, delay time.Duration) error {
	t.Type, t.Payload = TaskType, []byte("[")
	for i := range list {
		if i > 0 {
			t.Payload = append(t.Payload, ',')
		}
		t.Payload = list[i].AppendRecord(t.Payload)
	}
	t.Payload = append(t.Payload, ']')
	return e.Queue.Put(ctx, t, delay)
}

const queueInterval = 5 * time.Second

// WatchQueue reports a queue that this process cannot use, until ctx ends: every order would wait for the sweeper.
func (e *Enqueuer) WatchQueue(ctx context.Context) error {
	var logged string
	return periodic.Woken(ctx, queueInterval, nil, func() {
		looking, cancel := context.WithTimeout(ctx, enqueueTimeout)
		defer cancel()
		_, err := e.Queued(looking)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			logged = ""
			e.Conditions.Clear(orders.CauseQueue)
			return
		}
		e.Conditions.Set(orders.Condition{
			Cause:  orders.CauseQueue,
			Detail: "the task queue cannot be used; the sweeper commits orders after " + SweepAge.String(), Serves: true, Err: err,
		})
		if logged != err.Error() {
			logged = err.Error()
			e.Logger.WarnContext(ctx, "the task queue cannot be used; the sweeper commits orders", slog.Duration("after", SweepAge),
				slog.Any("queues", e.Queues()), slog.Any("error", err))
		}
	})
}

func (e *Enqueuer) Queues() []string {
	names := make([]string, e.Queue.Spread())
	for i := range names {
		names[i] = e.QueueName(i)
	}
	return names
}

func (e *Enqueuer) InProgress(ctx context.Context) (int, error) {
	counts, err := e.Queued(ctx)
	return counts[tasks.Active], err
}

// Queued counts the tasks of all sales by state.
func (e *Enqueuer) Queued(ctx context.Context) (map[string]int, error) {
	counts, err := e.Queue.Tasks(ctx, e.Queues())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", orders.ErrQueue, err)
	}
	return counts, nil
}
