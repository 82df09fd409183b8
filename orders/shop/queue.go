package shop

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/tasks"
)

// taskType is the version of a task, which is a list of orders: a worker leaves other types to later workers.
const taskType = "orders:commit"

const taskMax = 500 // orders of a task

// gatherFor is how long a process rests after each task, while the orders of the next one arrive: a task costs as much CPU time as
// several orders. An order that arrives after a rest does not wait. The others are committed up to so much later, which is little
// beside the time to their commit.
const gatherFor = 3 * time.Millisecond

// enqueueTimeout is for one attempt, of two.
const enqueueTimeout = time.Second

// sweepAge is how old an order in the outbox is when the sweeper takes it. Asynq itself finds a dead worker's tasks after one to two minutes.
const sweepAge = 5 * time.Second

// offered is a reservation on its way into the queue.
type offered struct {
	r    orders.Reservation
	from trace.SpanContext // of the request that reserved or repeated the order
}

// enqueuer hands accepted orders to the queue.
type enqueuer struct {
	*core
	notifier *notifier
	queue    tasks.Queue
	offers   chan offered
	enqueued atomic.Int64 // when this process enqueued last, Unix nanoseconds
}

// offer hands a reservation to enqueue. If that cannot keep up, the sweeper finds it in the outbox.
func (e *enqueuer) offer(r orders.Reservation, from trace.SpanContext) {
	select {
	case e.offers <- offered{r, from}:
	default:
	}
}

// enqueue puts offered reservations into the queue until ctx ends. Reservations that arrive while a task is being sent, and
// during the rest after it, form the next.
func (e *enqueuer) enqueue(ctx context.Context) error {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		var batch []offered
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-e.offers:
			batch = append(batch, o)
		}
		select {
		case <-ctx.Done(): // the outbox has the orders
			return ctx.Err()
		case <-rest.C:
		}
		for more := true; more && len(batch) < taskMax; {
			select {
			case o := <-e.offers:
				batch = append(batch, o)
			default:
				more = false
			}
		}
		e.enqueueTask(ctx, batch)
		rest.Reset(gatherFor)
	}
}

// enqueueTask leaves failures to the sweeper: perhaps only the reply was lost, and the outbox has the orders in any case.
func (e *enqueuer) enqueueTask(ctx context.Context, batch []offered) {
	list := make([]orders.Reservation, len(batch))
	for i := range batch {
		list[i] = batch[i].r
	}
	id, queue := uuid.NewString(), e.queueName(int(list[0].ID[15])%e.queue.Spread())
	spans, headers := e.traceEnqueue(ctx, batch, id, queue)
	err := e.putWithin(ctx, list, tasks.Task{Queue: queue, ID: id, Headers: headers})
	if err != nil && ctx.Err() == nil { // the connection may be dead, and is replaced
		err = e.putWithin(ctx, list, tasks.Task{Queue: queue, ID: id, Headers: headers})
	}
	for _, span := range spans {
		endSpan(span, err)
	}
	if err != nil && ctx.Err() == nil {
		e.logger.DebugContext(ctx, "left to the sweeper", slog.Int("orders", len(list)), slog.Any("error", err))
	}
	e.wakeWorkers(ctx)
}

// putWithin bounds the time for which one connection holds up the tasks of all sales.
func (e *enqueuer) putWithin(ctx context.Context, list []orders.Reservation, t tasks.Task) error {
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	return e.put(ctx, list, t, 0)
}

// put adds a task with a list of orders.
func (e *enqueuer) put(ctx context.Context, list []orders.Reservation, t tasks.Task, delay time.Duration) error {
	t.Type, t.Payload = taskType, []byte("[")
	for i := range list {
		if i > 0 {
			t.Payload = append(t.Payload, ',')
		}
		t.Payload = list[i].AppendRecord(t.Payload)
	}
	t.Payload = append(t.Payload, ']')
	return e.queue.Put(ctx, t, delay)
}

// wakeWorkers wakes idle workers. Workers that found a task within tasks.Pause look for others anyway.
func (e *enqueuer) wakeWorkers(ctx context.Context) {
	now := time.Now().UnixNano()
	if before := e.enqueued.Swap(now); now-before > int64(tasks.Pause/2) {
		e.notifier.publish(ctx, notification{Queued: true})
	}
}

const queueInterval = 5 * time.Second

// watchQueue reports a queue that this process cannot use, until ctx ends: every order would wait for the sweeper.
func (e *enqueuer) watchQueue(ctx context.Context) error {
	var logged string
	return periodic.Woken(ctx, queueInterval, nil, func() {
		looking, cancel := context.WithTimeout(ctx, enqueueTimeout)
		defer cancel()
		_, err := e.queued(looking)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			logged = ""
			e.conditions.clear(orders.CauseQueue)
			return
		}
		e.conditions.set(orders.Condition{Cause: orders.CauseQueue, Detail: "the task queue cannot be used; the sweeper commits orders after " + sweepAge.String(), Serves: true, Err: err})
		if logged != err.Error() {
			logged = err.Error()
			e.logger.WarnContext(ctx, "the task queue cannot be used; the sweeper commits orders", slog.Duration("after", sweepAge),
				slog.Any("queues", e.Queues()), slog.Any("error", err))
		}
	})
}

func (e *enqueuer) Queues() []string {
	names := make([]string, e.queue.Spread())
	for i := range names {
		names[i] = e.queueName(i)
	}
	return names
}

func (e *enqueuer) InProgress(ctx context.Context) (int, error) {
	counts, err := e.queued(ctx)
	return counts[tasks.Active], err
}

// queued counts the tasks of all sales by state.
func (e *enqueuer) queued(ctx context.Context) (map[string]int, error) {
	counts, err := e.queue.Tasks(ctx, e.Queues())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", orders.ErrQueue, err)
	}
	return counts, nil
}
