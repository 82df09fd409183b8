package semaphoreasynq_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
)

// A worker that is killed keeps others out until its lease ends, and no longer; its permits' tokens are older than all that follow.
func TestKilledWorkerFreesItsPermits(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	url := testenv.Redis(t)
	enqueue(t, url, "heavy", 2)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMain$")
	child.Env = append(os.Environ(), "WORKER_OF="+url, "WORKER_NAME="+name(t))
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	sem := open(t, url, 2, lease)
	lines, last := bufio.NewScanner(stdout), int64(0)
	for range 2 {
		if !lines.Scan() {
			t.Fatalf("the worker has ended: %v", lines.Err())
		}
		var token int64
		if _, err := fmt.Sscanf(lines.Text(), "started %d", &token); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		last = max(last, token)
	}
	await(t, sem, 2)
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	for range 2 {
		permit, _, err := sem.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if permit.Token() <= last {
			t.Errorf("token %d after %d", permit.Token(), last)
		}
		defer permit.Release() //nolint:errcheck // the test is over
	}
	t.Logf("both permits after %v of a lease of %v", time.Since(killed).Round(time.Millisecond), lease)
	if st := await(t, sem, 2); st.Totals.Lost != 2 {
		t.Errorf("%d lost", st.Totals.Lost)
	}
}

// worker is the child: it works until it is killed.
func worker(url, name string) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	sem, err := semaphore.New(rdb, "report", semaphore.Options{Limit: 2, Lease: 2 * time.Second, Namespace: "asynq-" + name})
	if err != nil {
		return err
	}
	srv := asynq.NewServerFromRedisClient(rdb, semaphoreasynq.Config(asynq.Config{
		Queues: map[string]int{name: 1}, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel,
	}))
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.Limit(sem, rdb))
	mux.HandleFunc("heavy", func(ctx context.Context, _ *asynq.Task) error {
		fmt.Println("started", semaphoreasynq.PermitOf(ctx).Token())
		<-ctx.Done()
		return ctx.Err()
	})
	return srv.Run(mux)
}
