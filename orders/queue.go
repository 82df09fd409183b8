package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"
)

const (
	taskType   = "order:commit"
	taskActive = "active" // state of a task that a worker has taken up
	enqueuers  = 32

	// A task is never given up: what the database refuses is buried there, and
	// everything else works some day. Asynq's archive forgets, so nothing may get there.
	taskRetries = 1 << 30
	taskTimeout = time.Minute
)

// offered is a reservation on its way into the queue.
type offered struct {
	r    Reservation
	from trace.SpanContext // in which it was made, or asked about
}

// offer hands a reservation to the enqueuers. When they cannot keep up it is
// the sweeper that finds it in the outbox.
func (s *Service) offer(ctx context.Context, r Reservation) {
	select {
	case s.enqueueing <- offered{r, trace.SpanContextFromContext(ctx)}:
	default:
	}
}

// enqueue puts offered reservations into the queue until ctx ends.
func (s *Service) enqueue(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case o := <-s.enqueueing:
			s.enqueueOne(ctx, o)
		}
	}
}

func (s *Service) enqueueOne(ctx context.Context, o offered) {
	payload, err := json.Marshal(o.r)
	if err != nil {
		panic(err) // strings and numbers
	}
	id, queue := o.r.ID.String(), s.queueName(int(o.r.ID[15])%queueShards)
	ctx, span, headers := s.traceEnqueue(ctx, o, queue)
	_, err = s.tasks.EnqueueContext(ctx, asynq.NewTaskWithHeaders(taskType, payload, headers),
		asynq.TaskID(id), asynq.Queue(queue), asynq.MaxRetry(taskRetries), asynq.Timeout(taskTimeout))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		err = nil // it is in the queue
	}
	endSpan(span, err)
	// It may be a lost answer, and the outbox has the order in any case.
	if err != nil && ctx.Err() == nil {
		s.opts.Logger.DebugContext(ctx, "left to the sweeper", slog.String("order_id", id), slog.Any("error", err))
	}
}

// drainMost is how long a process that leaves tries to commit what it remembers.
const drainMost = 5 * time.Second

// Drain commits what this process remembers, which is about to forget it. Call
// it when no request can come any more. What it could not commit in time is in
// the outbox, and nowhere else if Redis is lost.
func (s *Service) Drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainMost)
	defer cancel()
	for {
		remembered := s.ledger.all()
		left, err := s.commitAll(ctx, remembered)
		if err == nil && len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("orders: %d accepted orders are only in the outbox", len(remembered)), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
