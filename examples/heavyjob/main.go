// Command heavyjob makes reports, for requests and for tasks, never more than two at once: an Echo route and an Asynq task share one
// semaphore, with the packages of Tidegate; see README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/semaphore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
	flags := flag.NewFlagSet("heavyjob", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8090", "where to serve the reports")
	takes := flags.Duration("takes", 3*time.Second, "how long a report takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	opts, err := redis.ParseURL(cmp.Or(getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	// The limit comes from Tidegate's rules file or from an operator. Without a Tidegate server use semaphore.New with a limit.
	caps, err := semaphore.NewSet(rdb, semaphore.SetOptions{Namespace: cmp.Or(getenv("NAMESPACE"), "tidegate")})
	if err != nil {
		return err
	}
	holding, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the last report
	defer stop()
	go caps.Run(holding) //nolint:errcheck // it returns nil when holding ends
	heavy, err := caps.Semaphore("heavy")
	if err != nil {
		return err
	}
	report := func(ctx context.Context, name string, token int64) error {
		select { // stands for the real work
		case <-time.After(*takes):
			fmt.Fprintf(stdout, "%s is ready, under token %d\n", name, token)
			return nil
		case <-ctx.Done(): // client gone, task timed out, or permit lost: stop at once
			return context.Cause(ctx)
		}
	}

	worker := newWorker(rdb)
	if err := worker.Start(tasks(heavy, rdb, report)); err != nil {
		return err
	}
	defer worker.Shutdown() // running tasks finish, or return to the queue
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	routes(e, heavy, asynq.NewClientFromRedisClient(rdb), report)
	if e.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", *listen); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Reports are made at http://%s/reports/NAME, two at once\n", e.Listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- e.Start("") }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := e.Shutdown(within); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
