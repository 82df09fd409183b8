package main

import (
	"context"
	"net/http"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
	"github.com/tidegate/tidegate/semaphore/semaphoreecho"
)

const (
	queue    = "heavyjob"
	taskType = "report"
)

// A job makes the report with a name. Its target should reject a token that is lower than one it has seen: the holder of the lower one
// has lost its permit without noticing.
type job func(ctx context.Context, name string, token int64) error

// routes adds GET, which makes a report while the client waits, and POST, which leaves it to a worker.
func routes(e *echo.Echo, heavy *semaphore.Semaphore, queued *asynq.Client, report job) {
	// A request waits up to five seconds in the semaphore's queue, and is then answered 503 with its position in the queue and
	// Retry-After.
	e.GET("/reports/:name", func(c echo.Context) error {
		ctx := c.Request().Context() // cancelled when the client disconnects, or the permit is lost
		if err := report(ctx, c.Param("name"), semaphoreecho.PermitOf(ctx).Token()); err != nil {
			return err
		}
		return c.String(http.StatusOK, c.Param("name")+" is ready\n")
	}, semaphoreecho.Limit(heavy, 5*time.Second))

	e.POST("/reports/:name", func(c echo.Context) error {
		// A task needs retries so that it can be put back if it finds no permit. This uses none of them.
		task := asynq.NewTask(taskType, []byte(c.Param("name")), asynq.Queue(queue), asynq.MaxRetry(3), asynq.Timeout(time.Minute))
		if _, err := queued.EnqueueContext(c.Request().Context(), task); err != nil {
			return err
		}
		return c.String(http.StatusAccepted, c.Param("name")+" will be made\n")
	})
}

// newWorker returns an Asynq server whose tasks can be put back without using a retry.
func newWorker(rdb redis.UniversalClient) *asynq.Server {
	return asynq.NewServerFromRedisClient(rdb, semaphoreasynq.Config(asynq.Config{
		Concurrency: 10, Queues: map[string]int{queue: 1}, LogLevel: asynq.WarnLevel,
	}))
}

// tasks does the same job. One of its tasks at a time waits for its permit in its worker, in the queue with the requests; otherwise
// requests would always go first.
func tasks(heavy *semaphore.Semaphore, rdb redis.UniversalClient, report job) asynq.Handler {
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.LimitWith(heavy, semaphoreasynq.Options{Queue: rdb, Types: []string{taskType}, MaxBlocking: 1}))
	mux.HandleFunc(taskType, func(ctx context.Context, t *asynq.Task) error {
		return report(ctx, string(t.Payload()), semaphoreasynq.PermitOf(ctx).Token())
	})
	return mux
}
