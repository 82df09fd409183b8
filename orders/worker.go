package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/orders/internal/failpoint"
)

// concurrency is how many tasks are processed at once. Together they bound a batch.
const concurrency = 64

// worker writes accepted orders to the database. The zero value is not usable.
type worker struct {
	s         *Service
	committer *committer
}

// newWorker returns a worker over the clients of a service, whose loops must run beside it.
func newWorker(s *Service) *worker {
	return &worker{s: s, committer: newCommitter(s)}
}

// run works until ctx ends, and then finishes the tasks in progress.
func (w *worker) run(ctx context.Context) error {
	// The committer outlives the server, whose handlers wait for it.
	committing, stopCommitter := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCommitter()
	ctx, stopSweeper := context.WithCancel(ctx)
	defer stopSweeper()
	server := asynq.NewServerFromRedisClient(newPoller(w.s.queue, w.s.queueName(0), w.s.arrived, ctx.Done()), w.config())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.committer.run(committing) })
	g.Go(func() error { return w.sweep(ctx) })
	g.Go(func() error { return w.expire(ctx) })
	g.Go(func() error { return w.sweepReturns(ctx) })
	err := server.Start(asynq.HandlerFunc(w.handle))
	if err == nil {
		<-ctx.Done()
		server.Stop()
		server.Shutdown()
	}
	stopCommitter()
	stopSweeper()
	return errors.Join(err, ignoreCanceled(g.Wait()))
}

func (w *worker) config() asynq.Config {
	queues := make(map[string]int)
	for _, name := range w.s.Queues() {
		queues[name] = 100
	}
	for _, name := range w.s.formerQueueNames() {
		queues[name] = 1
	}
	return asynq.Config{
		Concurrency:       concurrency,
		Queues:            queues,
		TaskCheckInterval: pollInterval,
		// Whatever a handler returns will succeed later; counting it as a failure would move the task to the archive, which
		// drops tasks.
		IsFailure:      func(error) bool { return false },
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return retryDelay() },
		Logger:         AsynqLogger{w.s.opts.Logger},
		LogLevel:       asynq.WarnLevel,
	}
}

func retryDelay() time.Duration { return time.Second + rand.N(2*time.Second) }

func (w *worker) handle(ctx context.Context, task *asynq.Task) (err error) {
	ctx, span := w.s.traceHandle(ctx, task)
	defer func() { endSpan(span, err) }()
	list, damaged, err := parseTask(task.Payload())
	if damaged > 0 || err != nil {
		id, _ := asynq.GetTaskID(ctx) // the payload may name a buyer
		w.s.opts.Logger.ErrorContext(ctx, "a task has orders that cannot be read; the outbox has them",
			slog.String("task", id), slog.Int("damaged", damaged), slog.Int("bytes", len(task.Payload())), slog.Any("error", err))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
	}
	if len(list) == 0 {
		return nil
	}
	if span.IsRecording() {
		span.SetAttributes(semconv.MessagingBatchMessageCount(len(list)))
		if r := &list[0]; len(list) == 1 {
			span.SetAttributes(attrOrder.String(r.ID.String()), attrSale.String(r.Sale), attrItem.String(r.Item))
		}
	}
	errs, err := w.committer.commit(ctx, list)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.BeforeAck)
	return w.again(ctx, list, errs)
}

// again enqueues those orders of a task that could not be committed, so that the others are not repeated with them.
func (w *worker) again(ctx context.Context, list []Reservation, errs []error) error {
	var failed []Reservation
	var err error // one stands for all
	for i := range list {
		if errs[i] != nil {
			failed, err = append(failed, list[i]), errs[i]
		}
	}
	if len(failed) == 0 || len(failed) == len(list) {
		return err
	}
	queue, _ := asynq.GetQueueName(ctx)
	if w.s.enqueueList(ctx, failed, nil, asynq.Queue(queue), asynq.ProcessIn(retryDelay())) != nil {
		return err // the whole task again
	}
	w.s.opts.Logger.WarnContext(ctx, "orders of a task are committed later", slog.Int("orders", len(failed)), slog.Int("of", len(list)), slog.Any("error", err))
	return nil
}
