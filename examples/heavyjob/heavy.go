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

// A job makes the report of a name. Whatever it writes to can refuse a token that is lower than one it has seen: that is a holder who lost his permit
// and has not noticed.
type job func(ctx context.Context, name string, token int64) error

// routes are GET, which makes a report while the caller waits, and POST, which leaves it to a worker.
func routes(e *echo.Echo, heavy *semaphore.Semaphore, queued *asynq.Client, report job) {
	// A request waits up to five seconds in the queue of the semaphore. Then it is a 503 with its place in the queue and Retry-After.
	e.GET("/reports/:name", func(c echo.Context) error {
		ctx := c.Request().Context() // ends when the caller hangs up, or the permit is lost
		if err := report(ctx, c.Param("name"), semaphoreecho.PermitOf(ctx).Token()); err != nil {
			return err
		}
		return c.String(http.StatusOK, c.Param("name")+" is ready\n")
	}, semaphoreecho.Limit(heavy, 5*time.Second))

	e.POST("/reports/:name", func(c echo.Context) error {
		// With retries, since a task that finds no permit is put back; that costs none of them.
		task := asynq.NewTask(taskType, []byte(c.Param("name")), asynq.Queue(queue), asynq.MaxRetry(3), asynq.Timeout(time.Minute))
		if _, err := queued.EnqueueContext(c.Request().Context(), task); err != nil {
			return err
		}
		return c.String(http.StatusAccepted, c.Param("name")+" will be made\n")
	})
}

// newWorker is a server of Asynq whose tasks may be put back at no cost.
func newWorker(rdb redis.UniversalClient) *asynq.Server {
	return asynq.NewServerFromRedisClient(rdb, semaphoreasynq.Config(asynq.Config{
		Concurrency: 10, Queues: map[string]int{queue: 1}, LogLevel: asynq.WarnLevel,
	}))
}

// tasks are the same job. One of them at a time waits for its permit in its worker, in line with the requests, which else would always go first.
func tasks(heavy *semaphore.Semaphore, rdb redis.UniversalClient, report job) asynq.Handler {
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.LimitWith(heavy, semaphoreasynq.Options{Queue: rdb, Types: []string{taskType}, Stay: 1}))
	mux.HandleFunc(taskType, func(ctx context.Context, t *asynq.Task) error {
		return report(ctx, string(t.Payload()), semaphoreasynq.PermitOf(ctx).Token())
	})
	return mux
}
