package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/asynqlog"
	"github.com/tidegate/tidegate/internal/export"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
)

// OrdersTask is the type of the task that writes all orders of a sale into a file.
const OrdersTask = "report:orders"

const (
	slots    = 4                // tasks in work; those that write have a permit besides
	longest  = time.Hour        // that a report may take
	checks   = time.Second      // between two looks whether there is something to do
	goodbye  = 2 * time.Second  // for handlers to see that the worker stops
	unlikely = 10 * time.Second // until a task that could not be done for the database's sake is tried again
)

type task struct {
	Sale string `json:"sale"`
}

// Queue is the name of the Asynq queue of an installation's reports.
func Queue(namespace string) string { return namespace + "-reports" }

// Enqueue asks the workers of an installation for a report, and returns the name of the file that it will have. queue stays the caller's.
func Enqueue(ctx context.Context, queue redis.UniversalClient, namespace, sale string) (file string, err error) {
	payload, err := json.Marshal(task{sale})
	if err != nil {
		return "", err
	}
	info, err := asynq.NewClientFromRedisClient(queue).EnqueueContext(ctx, asynq.NewTask(OrdersTask, payload),
		asynq.Queue(Queue(namespace)), asynq.Timeout(longest))
	if err != nil {
		return "", err
	}
	return fileOf(sale, info.ID), nil
}

func fileOf(sale, id string) string { return sale + "-" + id + ".csv" }

// WorkerOptions of a Worker. All are required.
type WorkerOptions struct {
	Folder    string // of the files; it exists
	Namespace string
	Queue     redis.UniversalClient // Asynq's
	Orders    Orders
	Semaphore *semaphore.Semaphore
	Logger    *slog.Logger
}

// A Worker does the tasks.
type Worker struct {
	opts   WorkerOptions
	folder folder
}

// NewWorker opens the folder, and removes what workers that were killed have left there. Run closes it.
func NewWorker(opts WorkerOptions) (*Worker, error) {
	folder, err := openFolder(opts.Folder)
	if err != nil {
		return nil, err
	}
	w := &Worker{opts, folder}
	w.sweep()
	return w, nil
}

func (w *Worker) sweep() {
	if err := w.folder.sweep(time.Now().Add(-longest)); err != nil {
		w.opts.Logger.Warn("parts of reports are left over", "error", err)
	}
}

// Run works until ctx ends. Reports that are not ready by then go back and are begun anew.
func (w *Worker) Run(ctx context.Context) error {
	defer w.folder.close()
	srv := asynq.NewServerFromRedisClient(w.opts.Queue, semaphoreasynq.Config(asynq.Config{
		Concurrency:       slots,
		Queues:            map[string]int{Queue(w.opts.Namespace): 1},
		TaskCheckInterval: checks,
		ShutdownTimeout:   goodbye,
		BaseContext:       func() context.Context { return ctx },
		IsFailure:         isFailure,
		RetryDelayFunc: func(n int, err error, t *asynq.Task) time.Duration {
			if !isFailure(err) {
				return unlikely
			}
			return asynq.DefaultRetryDelayFunc(n, err, t)
		},
		ErrorHandler: asynq.ErrorHandlerFunc(w.failed),
		Logger:       asynqlog.New(w.opts.Logger),
		LogLevel:     asynq.WarnLevel,
	}))
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.LimitWith(w.opts.Semaphore, semaphoreasynq.Options{
		Queue:       w.opts.Queue,
		MaxBlocking: 1, // in the semaphore's queue, with the callers of HTTP
	}))
	mux.HandleFunc(OrdersTask, w.orders)
	if err := srv.Start(mux); err != nil {
		return fmt.Errorf("reports: %w", err)
	}
	<-ctx.Done()
	srv.Shutdown()
	return ctx.Err()
}

// isFailure: that the worker stops, or the database is away, is not the task's fault.
func isFailure(err error) bool {
	return !errors.Is(err, context.Canceled) && !errors.Is(err, orders.ErrUnavailable)
}

func (w *Worker) failed(ctx context.Context, t *asynq.Task, err error) {
	id, _ := asynq.GetTaskID(ctx)
	var of task
	_ = json.Unmarshal(t.Payload(), &of) // whatever else is there may be anything
	w.opts.Logger.WarnContext(ctx, "a report was not written", slog.String("task", id), slog.String("sale", of.Sale), slog.Any("error", err))
}

func (w *Worker) orders(ctx context.Context, t *asynq.Task) error {
	var of task
	if err := json.Unmarshal(t.Payload(), &of); err != nil {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
	}
	id, _ := asynq.GetTaskID(ctx)
	file := fileOf(of.Sale, id)
	if filepath.Base(file) != file {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, orders.ErrUnknownSale)
	}
	w.sweep()
	err := w.folder.write(ctx, file, semaphoreasynq.PermitOf(ctx).Token(), func(out io.Writer) error {
		return WriteOrders(ctx, out, export.CSV, w.opts.Orders, of.Sale)
	})
	if errors.Is(err, orders.ErrUnknownSale) {
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
	}
	if err == nil {
		w.opts.Logger.InfoContext(ctx, "report written", slog.String("file", file))
	}
	return err
}
