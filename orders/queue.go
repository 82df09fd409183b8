package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders/internal/poll"
)

const (
	// A task is a list of orders. Earlier versions made tasks of another type, with one order each. The type is the version: a
	// worker leaves other types to later workers.
	taskType       = "orders:commit"
	formerTaskType = "order:commit"

	taskActive = "active" // state of a task that a worker has taken up
	taskMax    = 500      // orders of a task

	// Tasks are retried without limit: orders that the database refuses become dead letters, and everything else succeeds
	// eventually. Asynq's archive drops tasks, so none may get there.
	taskRetries = 1 << 30
	taskTimeout = time.Minute
)

// gatherFor is how long a process rests after each task, while the orders of the next one arrive: a task costs as much CPU time as
// several orders. An order that arrives after a rest does not wait. The others are committed up to so much later, which is little
// beside the time to their commit.
const gatherFor = 3 * time.Millisecond

// enqueueTimeout is for one attempt, of two.
const enqueueTimeout = time.Second

// offered is a reservation on its way into the queue.
type offered struct {
	r    Reservation
	from trace.SpanContext // of the request that reserved or repeated the order
}

// enqueuer hands accepted orders to Asynq.
type enqueuer struct {
	*core
	notifier *notifier
	queue    redis.UniversalClient
	tasks    *asynq.Client
	offers   chan offered
	queues   int          // how many Asynq queues there are
	enqueued atomic.Int64 // when this process enqueued last, Unix nanoseconds
}

// offer hands a reservation to enqueue. If that cannot keep up, the sweeper finds it in the outbox.
func (e *enqueuer) offer(r Reservation, from trace.SpanContext) {
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
	list := make([]Reservation, len(batch))
	for i := range batch {
		list[i] = batch[i].r
	}
	id, queue := uuid.NewString(), e.queueName(int(list[0].ID[15])%e.queues)
	spans, headers := e.traceEnqueue(ctx, batch, id, queue)
	err := e.enqueueWithin(ctx, list, headers, asynq.TaskID(id), asynq.Queue(queue))
	if err != nil && ctx.Err() == nil { // the connection may be dead, and is replaced
		err = e.enqueueWithin(ctx, list, headers, asynq.TaskID(id), asynq.Queue(queue))
	}
	if errors.Is(err, asynq.ErrTaskIDConflict) { // only the reply was lost
		err = nil
	}
	for _, span := range spans {
		endSpan(span, err)
	}
	if err != nil && ctx.Err() == nil {
		e.opts.Logger.DebugContext(ctx, "left to the sweeper", slog.Int("orders", len(list)), slog.Any("error", err))
	}
	e.wakeWorkers(ctx)
}

// enqueueWithin bounds the time for which one connection holds up the tasks of all sales.
func (e *enqueuer) enqueueWithin(ctx context.Context, list []Reservation, headers map[string]string, options ...asynq.Option) error {
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	return e.enqueueList(ctx, list, headers, options...)
}

func (e *enqueuer) enqueueList(ctx context.Context, list []Reservation, headers map[string]string, options ...asynq.Option) error {
	payload := []byte("[")
	for i := range list {
		if i > 0 {
			payload = append(payload, ',')
		}
		payload = list[i].appendRecord(payload)
	}
	payload = append(payload, ']')
	_, err := e.tasks.EnqueueContext(ctx, asynq.NewTaskWithHeaders(taskType, payload, headers),
		append(options, asynq.MaxRetry(taskRetries), asynq.Timeout(taskTimeout))...)
	return err
}

// parseTask reads the orders of a task. It leaves out those that are unreadable or of a later version, and returns their numbers,
// so that they do not keep the others from being committed. The outbox has them.
func parseTask(payload []byte) (list []Reservation, damaged, later int, err error) {
	texts := []json.RawMessage{payload} // one order, written by an earlier version
	if !bytes.HasPrefix(payload, []byte("{")) {
		var all []versioned
		if json.Unmarshal(payload, &all) == nil && !slices.ContainsFunc(all, func(v versioned) bool { return v.check() != nil }) {
			list = make([]Reservation, len(all))
			for i := range all {
				list[i] = all[i].Reservation
			}
			return list, 0, 0, nil
		}
		if err := json.Unmarshal(payload, &texts); err != nil {
			return nil, 0, 0, err
		}
	}
	for _, text := range texts {
		r, err := ParseReservation(text)
		switch {
		case err == nil:
			list = append(list, r)
		case errors.Is(err, errLaterVersion):
			later++
		default:
			damaged++
		}
	}
	return list, damaged, later, nil
}

// wakeWorkers wakes idle workers. Workers that found a task within poll.BusyFor poll often anyway.
func (e *enqueuer) wakeWorkers(ctx context.Context) {
	now := time.Now().UnixNano()
	if before := e.enqueued.Swap(now); now-before > int64(poll.BusyFor/2) {
		e.notifier.publish(ctx, notification{Queued: true})
	}
}

const queueInterval = 5 * time.Second

// watchQueue reports a queue that this process cannot use, until ctx ends: every order would wait for the sweeper.
func (e *enqueuer) watchQueue(ctx context.Context) error {
	var logged string
	return periodic.Woken(ctx, queueInterval, nil, func() {
		err := e.probeQueue(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			logged = ""
			e.conditions.clear(CauseQueue)
			return
		}
		e.conditions.set(Condition{Cause: CauseQueue, Detail: "the task queue cannot be used; the sweeper commits orders after " + sweepAge.String(), Serves: true, Err: err})
		if logged != err.Error() {
			logged = err.Error()
			e.opts.Logger.WarnContext(ctx, "the task queue cannot be used; the sweeper commits orders", slog.Duration("after", sweepAge),
				slog.Any("queues", e.Queues()), slog.Any("error", err))
		}
	})
}

// probeQueue writes what Asynq's clients write anyway, and reads the keys of the queues.
func (e *enqueuer) probeQueue(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	if err := e.queue.SAdd(ctx, "asynq:queues", e.Queues()).Err(); err != nil {
		return queueError(err)
	}
	_, err := e.queued(ctx)
	return err
}

func queueError(err error) error { return fmt.Errorf("%w: %w", ErrQueue, err) }

// Queues are the names of the Asynq queues that accepted orders wait in.
func (e *enqueuer) Queues() []string { return e.queueNames(accepted, e.queues) }

// InProgress returns the number of tasks that workers are processing, according to the queue's Redis. A task has one order or more.
func (e *enqueuer) InProgress(ctx context.Context) (int, error) {
	tasks, err := e.queued(ctx)
	return tasks[taskActive], err
}

// queued counts the tasks of all sales by state. It reads Asynq's keys directly: the inspector finds no queues after Redis lost
// its data, and reads far more.
func (e *enqueuer) queued(ctx context.Context) (map[string]int, error) {
	counts := make(map[string][]*redis.IntCmd)
	_, err := e.queue.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, queue := range slices.Concat(e.Queues(), e.formerQueueNames()) {
			prefix := "asynq:{" + queue + "}:"
			for _, list := range []string{"pending", taskActive} {
				counts[list] = append(counts[list], p.LLen(ctx, prefix+list))
			}
			for _, set := range []string{"scheduled", "retry", "archived"} {
				counts[set] = append(counts[set], p.ZCard(ctx, prefix+set))
			}
		}
		return nil
	})
	if err != nil {
		return nil, queueError(err)
	}
	states := make(map[string]int, len(counts))
	for state, of := range counts {
		for _, c := range of {
			states[state] += int(c.Val())
		}
	}
	return states, nil
}
