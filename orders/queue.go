package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/internal/periodic"
)

const (
	// A task is a list of orders. Earlier versions made tasks of another type, order:commit, with one order each.
	taskType = "orders:commit"

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

// offer hands a reservation to enqueue. If that cannot keep up, the sweeper finds it in the outbox.
func (s *Service) offer(r Reservation, from trace.SpanContext) {
	select {
	case s.enqueueing <- offered{r, from}:
	default:
	}
}

// enqueue puts offered reservations into the queue until ctx ends. Reservations that arrive while a task is being sent, and
// during the rest after it, form the next.
func (s *Service) enqueue(ctx context.Context) error {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		var batch []offered
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-s.enqueueing:
			batch = append(batch, o)
		}
		select {
		case <-ctx.Done(): // the outbox has the orders
			return ctx.Err()
		case <-rest.C:
		}
		for more := true; more && len(batch) < taskMax; {
			select {
			case o := <-s.enqueueing:
				batch = append(batch, o)
			default:
				more = false
			}
		}
		s.enqueueTask(ctx, batch)
		rest.Reset(gatherFor)
	}
}

// enqueueTask leaves failures to the sweeper: perhaps only the reply was lost, and the outbox has the orders in any case.
func (s *Service) enqueueTask(ctx context.Context, batch []offered) {
	list := make([]Reservation, len(batch))
	for i := range batch {
		list[i] = batch[i].r
	}
	id, queue := uuid.NewString(), s.queueName(int(list[0].ID[15])%s.queues)
	spans, headers := s.traceEnqueue(ctx, batch, id, queue)
	err := s.enqueueWithin(ctx, list, headers, asynq.TaskID(id), asynq.Queue(queue))
	if err != nil && ctx.Err() == nil { // the connection may be dead, and is replaced
		err = s.enqueueWithin(ctx, list, headers, asynq.TaskID(id), asynq.Queue(queue))
	}
	if errors.Is(err, asynq.ErrTaskIDConflict) { // only the reply was lost
		err = nil
	}
	for _, span := range spans {
		endSpan(span, err)
	}
	if err != nil && ctx.Err() == nil {
		s.opts.Logger.DebugContext(ctx, "left to the sweeper", slog.Int("orders", len(list)), slog.Any("error", err))
	}
	s.wakeWorkers(ctx)
}

// enqueueWithin bounds the time for which one connection holds up the tasks of all sales.
func (s *Service) enqueueWithin(ctx context.Context, list []Reservation, headers map[string]string, options ...asynq.Option) error {
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	return s.enqueueList(ctx, list, headers, options...)
}

func (s *Service) enqueueList(ctx context.Context, list []Reservation, headers map[string]string, options ...asynq.Option) error {
	payload := []byte("[")
	for i := range list {
		if i > 0 {
			payload = append(payload, ',')
		}
		payload = list[i].appendRecord(payload)
	}
	payload = append(payload, ']')
	_, err := s.tasks.EnqueueContext(ctx, asynq.NewTaskWithHeaders(taskType, payload, headers),
		append(options, asynq.MaxRetry(taskRetries), asynq.Timeout(taskTimeout))...)
	return err
}

// parseTask reads the orders of a task. It leaves out unreadable ones and returns their number as damaged, so that they do not
// keep the others from being committed.
func parseTask(payload []byte) (list []Reservation, damaged int, err error) {
	if bytes.HasPrefix(payload, []byte("{")) { // one order, written by an earlier version
		r, err := ParseReservation(payload)
		return []Reservation{r}, 0, err
	}
	if json.Unmarshal(payload, &list) == nil {
		return list, 0, nil
	}
	var texts []json.RawMessage
	if err := json.Unmarshal(payload, &texts); err != nil {
		return nil, 0, err
	}
	list = nil
	for _, text := range texts {
		if r, err := ParseReservation(text); err == nil {
			list = append(list, r)
		} else {
			damaged++
		}
	}
	return list, damaged, nil
}

// drainMost is how long Drain tries to commit.
const drainMost = 5 * time.Second

// Drain commits the uncommitted orders that this process remembers. Call it before the process exits, when no more requests can
// arrive. Orders that it could not commit in time are only in the outbox, and are lost if Redis is lost.
func (s *Service) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainMost)
	defer cancel()
	for {
		remembered := s.ledger.all()
		left, err := s.commitAll(ctx, remembered)
		if err == nil && len(left) == 0 {
			return nil
		}
		if !periodic.Pause(ctx, 100*time.Millisecond) {
			return errors.Join(fmt.Errorf("orders: %d accepted orders are only in the outbox", len(remembered)), err)
		}
	}
}
