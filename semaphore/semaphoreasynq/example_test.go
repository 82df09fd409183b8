package semaphoreasynq_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
)

// No more than two reports are written at the same time, by tasks and by requests with package semaphoreecho together, in however many
// processes.
func Example() {
	server, err := miniredis.Run() // in production, Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	reports, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 2})
	if err != nil {
		panic(err)
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	go reports.Run(running) //nolint:errcheck // it returns nil when running ends

	srv := asynq.NewServerFromRedisClient(rdb, semaphoreasynq.Config(asynq.Config{Concurrency: 10, LogLevel: asynq.FatalLevel}))
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.LimitWith(reports, semaphoreasynq.Options{
		Queue:       rdb,
		Types:       []string{"report"},
		MaxBlocking: 1, // in the queue with the requests, so that they do not overtake the tasks
	}))
	written := make(chan string)
	mux.HandleFunc("report", func(ctx context.Context, t *asynq.Task) error {
		text, err := write(ctx, string(t.Payload()), semaphoreasynq.PermitOf(ctx).Token())
		written <- text
		return err
	})
	mux.HandleFunc("mail", func(context.Context, *asynq.Task) error { return nil }) // needs no permit
	if err := srv.Start(mux); err != nil {
		panic(err)
	}
	defer srv.Shutdown()

	if _, err := asynq.NewClientFromRedisClient(rdb).Enqueue(asynq.NewTask("report", []byte("sales"))); err != nil {
		panic(err)
	}
	fmt.Println(<-written)
	// Output: sales written under a token: true
}

// write stops with ctx, when the permit is lost. Whatever it writes to can refuse a token that is older than one it has seen.
func write(ctx context.Context, name string, token int64) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return fmt.Sprintf("%s written under a token: %t", name, token > 0), nil
}
