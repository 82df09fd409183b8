package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/orders/internal/failpoint"
)

// WorkerOptions of a Worker.
type WorkerOptions struct {
	// Servers is how many Asynq servers run, each with one fetch loop. Default 2.
	Servers int
}

// concurrency is how many tasks each server has in work. Together they bound a batch.
const concurrency = 256

// Worker writes accepted orders to the database. The zero value is not usable.
type Worker struct {
	s         *Service
	opts      WorkerOptions
	committer *committer
}

// NewWorker returns a worker over the clients of a service, whose Run must run beside it.
func NewWorker(s *Service, opts WorkerOptions) (*Worker, error) {
	if opts.Servers == 0 {
		opts.Servers = 2
	}
	if opts.Servers < 1 || opts.Servers > 16 {
		return nil, fmt.Errorf("orders: worker: %d servers; there may be 1 to 16", opts.Servers)
	}
	return &Worker{s: s, opts: opts, committer: newCommitter(s)}, nil
}

// Run works until ctx ends, and then finishes what it has in work.
func (w *Worker) Run(ctx context.Context) error {
	servers := make([]*asynq.Server, w.opts.Servers)
	for i := range servers {
		servers[i] = asynq.NewServerFromRedisClient(w.s.queue, w.config())
	}
	// The committer outlives the servers, whose handlers wait for it.
	committing, stopCommitter := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCommitter()
	ctx, stopSweeper := context.WithCancel(ctx)
	defer stopSweeper()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.committer.run(committing) })
	g.Go(func() error { return w.sweep(ctx) })
	g.Go(func() error { return w.expire(ctx) })
	g.Go(func() error { return w.sweepReturns(ctx) })
	var err error
	started := 0
	for ; started < len(servers) && err == nil; started++ {
		err = servers[started].Start(asynq.HandlerFunc(w.handle))
	}
	if err == nil {
		<-ctx.Done()
	}
	for _, srv := range servers[:started] {
		srv.Stop() // all stop fetching before the first waits for its handlers
	}
	for _, srv := range servers[:started] {
		srv.Shutdown()
	}
	stopCommitter()
	stopSweeper()
	return errors.Join(err, ignoreCanceled(g.Wait()))
}

func (w *Worker) config() asynq.Config {
	queues := make(map[string]int, queueShards)
	for shard := range queueShards {
		queues[w.s.queueName(shard)] = 1
	}
	return asynq.Config{
		Concurrency:       concurrency,
		Queues:            queues,
		TaskCheckInterval: 10 * time.Millisecond,
		// Whatever a handler returns will work later; counting it as a failure
		// would lead to the archive, which forgets.
		IsFailure:      func(error) bool { return false },
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Second + rand.N(2*time.Second) },
		Logger:         AsynqLogger{w.s.opts.Logger},
		LogLevel:       asynq.WarnLevel,
	}
}

func (w *Worker) handle(ctx context.Context, task *asynq.Task) (err error) {
	ctx, span := w.s.traceHandle(ctx, task)
	defer func() { endSpan(span, err) }()
	r, err := ParseReservation(task.Payload())
	if err != nil {
		id, _ := asynq.GetTaskID(ctx) // the payload may name a buyer
		w.s.opts.Logger.ErrorContext(ctx, "a task is no order", slog.String("order_id", id), slog.Int("bytes", len(task.Payload())), slog.Any("error", err))
		return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
	}
	if span.IsRecording() {
		span.SetAttributes(attrOrder.String(r.ID.String()), attrSale.String(r.Sale), attrItem.String(r.Item))
	}
	err = w.committer.commit(ctx, r)
	failpoint.Hit(failpoint.BeforeAck)
	return err
}
