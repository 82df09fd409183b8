// Package asynqueue takes accepted orders to workers through Asynq.
package asynqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/asynqkeys"
	"github.com/tidegate/tidegate/internal/asynqlog"
	"github.com/tidegate/tidegate/internal/pubsub"
	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/redisclient"
)

const (
	// Tasks are retried without limit: orders that the database refuses become dead letters, and everything else succeeds
	// eventually. Asynq's archive drops tasks, so none may get there.
	maxRetry = 1 << 30
	// timeout is how long a worker may take for a task.
	timeout = time.Minute

	spreadOfCluster = 4 // a queue is one slot, so each queue is served by one master
)

// Queue is a tasks.Queue over Asynq.
type Queue struct {
	rdb    redis.UniversalClient
	client *asynq.Client
}

// New returns a queue in Redis. Of a *redisclient.Client it takes the client for queues. The caller closes rdb.
func New(rdb redis.UniversalClient) *Queue {
	if c, ok := rdb.(*redisclient.Client); ok {
		rdb = c.Queue()
	}
	return &Queue{rdb: rdb, client: asynq.NewClientFromRedisClient(signaller{rdb})}
}

// Spread returns 1, or 4 for a cluster.
func (q *Queue) Spread() int {
	if _, ok := q.rdb.(*redis.ClusterClient); ok {
		return spreadOfCluster
	}
	return 1
}

// Put implements tasks.Queue.
func (q *Queue) Put(ctx context.Context, t tasks.Task, delay time.Duration) error {
	options := []asynq.Option{asynq.Queue(t.Queue), asynq.MaxRetry(maxRetry), asynq.Timeout(timeout)}
	if t.ID != "" {
		options = append(options, asynq.TaskID(t.ID))
	}
	if delay > 0 {
		options = append(options, asynq.ProcessIn(delay))
	}
	_, err := q.client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(t.Type, t.Payload, t.Headers), options...)
	if errors.Is(err, asynq.ErrTaskIDConflict) { // only the reply was lost
		return nil
	}
	return err
}

// Work gives tasks to w until ctx ends.
func (q *Queue) Work(ctx context.Context, w tasks.Worker) error {
	priorities := make(map[string]int, len(w.Queues))
	for _, name := range w.Queues {
		priorities[name] = 1
	}
	signalled := newSignals()
	listening, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	listener.Go(func() { q.listen(listening, w, signalled) })
	poller := newPoller(q.rdb, len(priorities), w.Concurrent, signalled, ctx.Done())
	server := asynq.NewServerFromRedisClient(poller, asynq.Config{
		Concurrency:       w.Concurrent,
		Queues:            priorities,
		TaskCheckInterval: interval,
		// Whatever Handle returns will succeed later; counting it as a failure would move the task to the archive, which drops tasks.
		IsFailure:      func(error) bool { return false },
		RetryDelayFunc: func(_ int, err error, _ *asynq.Task) time.Duration { return w.Delay(err) },
		Logger:         asynqlog.New(w.Logger),
		LogLevel:       asynq.WarnLevel,
	})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		t := tasks.Task{Type: task.Type(), Payload: task.Payload(), Headers: task.Headers()}
		t.Queue, _ = asynq.GetQueueName(ctx)
		t.ID, _ = asynq.GetTaskID(ctx)
		err := poller.handle(func() error { return w.Handle(ctx, t) })
		if errors.Is(err, tasks.ErrDrop) {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
		}
		return err
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Stop()
	server.Shutdown()
	return nil
}

// listen counts signals of tasks until ctx ends.
func (q *Queue) listen(ctx context.Context, w tasks.Worker, s *signals) {
	channels := make([]string, len(w.Queues))
	for i, name := range w.Queues {
		channels[i] = asynqkeys.Pending(name)
	}
	_ = pubsub.Follow(ctx, idle, func() error {
		return pubsub.Listen(ctx, q.rdb.Subscribe, channels, func(string) { s.add() })
	}, func(err error) {
		w.Logger.DebugContext(ctx, "no signals of tasks are received", slog.Any("error", err))
	})
}

// Tasks counts the tasks of some queues by Asynq's states: pending, active, scheduled, retry and archived. It writes what Put
// writes anyway.
func (q *Queue) Tasks(ctx context.Context, queues []string) (map[string]int, error) {
	counts := make([]map[string]*redis.IntCmd, len(queues))
	_, err := q.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.SAdd(ctx, asynqkeys.Queues, queues)
		for i, queue := range queues {
			counts[i] = asynqkeys.Count(ctx, p, queue)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	states := make(map[string]int)
	for _, of := range counts {
		for state, n := range of {
			states[state] += int(n.Val())
		}
	}
	return states, nil
}
