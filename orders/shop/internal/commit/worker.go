package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/failpoint"
	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
	"github.com/tidegate/tidegate/orders/shop/internal/queue"
)

// concurrency is how many tasks are processed at once. Together they bound a batch.
const concurrency = 64

// Worker takes accepted orders from the queue and the outbox to the committer, and runs what only workers do.
type Worker struct {
	*core.Core
	sales     *catalog.Watch
	enqueuer  *queue.Enqueuer
	committer *Committer
	lifecycle *Lifecycle
}

// NewWorker returns the part.
func NewWorker(c *core.Core, sales *catalog.Watch, enqueuer *queue.Enqueuer, committer *Committer, lifecycle *Lifecycle) *Worker {
	return &Worker{Core: c, sales: sales, enqueuer: enqueuer, committer: committer, lifecycle: lifecycle}
}

// Run works until ctx ends, and then finishes the tasks in progress.
func (w *Worker) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.prove(ctx) })
	g.Go(func() error { return w.sweep(ctx) })
	g.Go(func() error { return w.lifecycle.expire(ctx) })
	g.Go(func() error { return w.lifecycle.sweepReturns(ctx) })
	err := w.enqueuer.Queue.Work(ctx, tasks.Worker{
		Queues: w.enqueuer.Queues(), Concurrent: concurrency, Handle: w.handle, Logger: w.Logger,
		Delay: func(err error) time.Duration {
			if errors.Is(err, orders.ErrLaterVersion) {
				return laterDelay + rand.N(laterDelay)
			}
			return retryDelay()
		},
	})
	w.committer.batches.Wait() // also for handlers that were given up
	stop()
	return errors.Join(err, core.IgnoreCanceled(g.Wait()))
}

const (
	provedFor     = 15 * time.Second // after a commit
	proveInterval = time.Second
	proveTimeout  = 5 * time.Second
)

// prove proves that orders can be committed while there are none to commit, until ctx ends.
func (w *Worker) prove(ctx context.Context) error {
	var due time.Time
	failed := false
	return periodic.Woken(ctx, proveInterval, nil, func() {
		if w.Foreign.Load() || time.Now().Before(due) {
			return
		}
		trying, cancel := context.WithTimeout(ctx, proveTimeout)
		defer cancel()
		switch err := w.Store.Prove(trying); {
		case err == nil:
			w.Commits.Beat(provedFor)
			w.Conditions.Clear(orders.CauseCommits)
			failed = false
			due = time.Now().Add(provedFor / 3)
		case ctx.Err() == nil:
			if !failed {
				w.Logger.ErrorContext(ctx, "the database does not let orders be committed", slog.Any("error", err))
			}
			failed = true
			w.Conditions.Set(orders.Condition{Cause: orders.CauseCommits, Detail: "the database does not let orders be committed", Err: err})
		}
	})
}

func retryDelay() time.Duration { return time.Second + rand.N(2*time.Second) }

// laterDelay is how long a task of a later version waits for a worker of that version before this one may find it again.
const laterDelay = 5 * time.Second

func (w *Worker) handle(ctx context.Context, task tasks.Task) (err error) {
	ctx, span := w.traceHandle(ctx, &task)
	defer func() { core.EndSpan(span, err) }()
	if task.Type != queue.TaskType {
		w.Measures.NewerVersion(core.NewerTask, 1)
		return fmt.Errorf("%w: task %.40q", orders.ErrLaterVersion, task.Type)
	}
	list, damaged, later, err := orders.ParseReservations(task.Payload)
	if later > 0 {
		w.Measures.NewerVersion(core.NewerRecord, later)
	}
	if damaged > 0 || err != nil {
		w.Logger.ErrorContext(ctx, "a task has orders that cannot be read; the outbox has them", // the payload may name a buyer
			slog.String("task", task.ID), slog.Int("damaged", damaged), slog.Int("bytes", len(task.Payload)), slog.Any("error", err))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", tasks.ErrDrop, err)
	}
	if len(list) == 0 {
		return nil
	}
	if span.IsRecording() {
		span.SetAttributes(semconv.MessagingBatchMessageCount(len(list)))
		if r := &list[0]; len(list) == 1 {
			span.SetAttributes(core.AttrOrder.String(w.Shown(r.ID, r.Buyer).String()), core.AttrSale.String(r.Sale), core.AttrItem.String(r.Item))
		}
	}
	errs, err := w.committer.commit(ctx, list)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.BeforeAck)
	return w.again(ctx, task.Queue, list, errs)
}

// again enqueues those orders of a task that could not be committed, so that the others are not repeated with them.
func (w *Worker) again(ctx context.Context, queue string, list []orders.Reservation, errs []error) error {
	var failed []orders.Reservation
	var err error // one stands for all
	for i := range list {
		if errs[i] != nil {
			failed, err = append(failed, list[i]), errs[i]
		}
	}
	if len(failed) == 0 || len(failed) == len(list) {
		return err
	}
	if w.enqueuer.Put(ctx, failed, tasks.Task{Queue: queue}, retryDelay()) != nil {
		return err // the whole task again
	}
	w.Logger.WarnContext(ctx, "orders of a task are committed later", slog.Int("orders", len(failed)), slog.Int("of", len(list)),
		slog.Any("error", err))
	return nil
}
