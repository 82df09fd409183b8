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

	"github.com/tidegate/tidegate/internal/asynqlog"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
	"github.com/tidegate/tidegate/orders/internal/poll"
)

// concurrency is how many tasks are processed at once. Together they bound a batch.
const concurrency = 64

// worker takes accepted orders from the queue and the outbox to the committer, and runs what only workers do.
type worker struct {
	*core
	sales     *catalogWatch
	enqueuer  *enqueuer
	committer *committer
	lifecycle *lifecycle
}

// run works until ctx ends, and then finishes the tasks in progress.
func (w *worker) run(ctx context.Context) error {
	// The committer outlives the server, whose handlers wait for it.
	committing, stopCommitter := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCommitter()
	ctx, stopSweeper := context.WithCancel(ctx)
	defer stopSweeper()
	server := asynq.NewServerFromRedisClient(poll.New(w.enqueuer.queue, w.queueName(0), w.arrived, ctx.Done()), w.config())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.committer.run(committing) })
	g.Go(func() error { return w.prove(ctx) })
	g.Go(func() error { return w.sweep(ctx) })
	g.Go(func() error { return w.lifecycle.expire(ctx) })
	g.Go(func() error { return w.lifecycle.sweepReturns(ctx) })
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
	for _, name := range w.enqueuer.Queues() {
		queues[name] = 100
	}
	for _, name := range w.formerQueueNames() {
		queues[name] = 1
	}
	return asynq.Config{
		Concurrency:       concurrency,
		Queues:            queues,
		TaskCheckInterval: poll.Interval,
		// Whatever a handler returns will succeed later; counting it as a failure would move the task to the archive, which
		// drops tasks.
		IsFailure: func(error) bool { return false },
		RetryDelayFunc: func(_ int, err error, _ *asynq.Task) time.Duration {
			if errors.Is(err, errLaterVersion) {
				return laterDelay + rand.N(laterDelay)
			}
			return retryDelay()
		},
		Logger:   asynqlog.New(w.opts.Logger),
		LogLevel: asynq.WarnLevel,
	}
}

const (
	provedFor     = 15 * time.Second // after a commit
	proveInterval = time.Second
	proveTimeout  = 5 * time.Second
)

// prove proves that orders can be committed while there are none to commit, until ctx ends.
func (w *worker) prove(ctx context.Context) error {
	var due time.Time
	failed := false
	return periodic.Woken(ctx, proveInterval, nil, func() {
		if w.foreign.Load() || time.Now().Before(due) {
			return
		}
		trying, cancel := context.WithTimeout(ctx, proveTimeout)
		defer cancel()
		switch err := w.store.Prove(trying); {
		case err == nil:
			w.commits.Beat(provedFor)
			w.conditions.clear(CauseCommits)
			failed = false
			due = time.Now().Add(provedFor / 3)
		case ctx.Err() == nil:
			if !failed {
				w.opts.Logger.ErrorContext(ctx, "the database does not let orders be committed", slog.Any("error", err))
			}
			failed = true
			w.conditions.set(Condition{Cause: CauseCommits, Detail: "the database does not let orders be committed", Err: err})
		}
	})
}

func retryDelay() time.Duration { return time.Second + rand.N(2*time.Second) }

// laterDelay is how long a task of a later version waits for a worker of that version before this one may find it again.
const laterDelay = 5 * time.Second

func (w *worker) handle(ctx context.Context, task *asynq.Task) (err error) {
	ctx, span := w.traceHandle(ctx, task)
	defer func() { endSpan(span, err) }()
	if task.Type() != taskType && task.Type() != formerTaskType {
		w.opts.Measures.NewerVersion(NewerTask, 1)
		return fmt.Errorf("%w: task %.40q", errLaterVersion, task.Type())
	}
	list, damaged, later, err := parseTask(task.Payload())
	if later > 0 {
		w.opts.Measures.NewerVersion(NewerRecord, later)
	}
	if damaged > 0 || err != nil {
		id, _ := asynq.GetTaskID(ctx) // the payload may name a buyer
		w.opts.Logger.ErrorContext(ctx, "a task has orders that cannot be read; the outbox has them",
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
			span.SetAttributes(attrOrder.String(w.Shown(r.ID, r.Buyer).String()), attrSale.String(r.Sale), attrItem.String(r.Item))
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
	if w.enqueuer.enqueueList(ctx, failed, nil, asynq.Queue(queue), asynq.ProcessIn(retryDelay())) != nil {
		return err // the whole task again
	}
	w.opts.Logger.WarnContext(ctx, "orders of a task are committed later", slog.Int("orders", len(failed)), slog.Int("of", len(list)), slog.Any("error", err))
	return nil
}
