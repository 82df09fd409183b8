package orders

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
)

const (
	taskType  = "order:commit"
	enqueuers = 32

	// A task is never given up: what the database refuses is buried there, and
	// everything else works some day. Asynq's archive forgets, so nothing may get there.
	taskRetries = 1 << 30
	taskTimeout = time.Minute
)

// offer hands a reservation to the enqueuers. When they cannot keep up it is
// the sweeper that finds it in the outbox.
func (s *Service) offer(r Reservation) {
	select {
	case s.enqueueing <- r:
	default:
	}
}

// enqueue puts offered reservations into the queue until ctx ends.
func (s *Service) enqueue(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-s.enqueueing:
			s.enqueueOne(ctx, r)
		}
	}
}

func (s *Service) enqueueOne(ctx context.Context, r Reservation) {
	payload, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	id := r.ID.String()
	_, err = s.tasks.EnqueueContext(ctx, asynq.NewTask(taskType, payload),
		asynq.TaskID(id), asynq.Queue(s.queueName(int(r.ID[15])%s.opts.QueueShards)),
		asynq.MaxRetry(taskRetries), asynq.Timeout(taskTimeout))
	// A conflict says that it is in the queue. Any other error may be a lost
	// answer, and the outbox has the order in any case.
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) && ctx.Err() == nil {
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
