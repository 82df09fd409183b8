package semaphoreasynq_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
	"github.com/tidegate/tidegate/semaphore/semaphoreecho"
)

// No more than two reports are written at the same time, by tasks and requests together, in however many processes.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	reports, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 2})
	if err != nil {
		panic(err)
	}
	defer reports.Close()

	srv := asynq.NewServerFromRedisClient(rdb, semaphoreasynq.Config(asynq.Config{Concurrency: 10}))
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.LimitWith(reports, semaphoreasynq.Options{
		Queue: rdb,
		Types: []string{"report"},
		Stay:  1, // in the queue with the requests, so that they do not go before all tasks
	}))
	mux.HandleFunc("report", func(ctx context.Context, t *asynq.Task) error {
		return write(ctx, string(t.Payload()), semaphoreasynq.PermitOf(ctx).Token())
	})
	mux.HandleFunc("mail", func(context.Context, *asynq.Task) error { return nil }) // needs no permit
	if err := srv.Start(mux); err != nil {
		panic(err)
	}
	defer srv.Shutdown()

	e := echo.New()
	e.GET("/reports/:name", func(c echo.Context) error {
		ctx := c.Request().Context()
		if err := write(ctx, c.Param("name"), semaphoreecho.PermitOf(ctx).Token()); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	}, semaphoreecho.Limit(reports, 5*time.Second))
	e.Logger.Fatal(e.Start(":8080"))
}

// write stops with ctx, when the permit is lost. Whatever it writes to can refuse a token that is older than one it has seen.
func write(ctx context.Context, name string, token int64) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	_, err := fmt.Println("writing", name, "under", token)
	return err
}
