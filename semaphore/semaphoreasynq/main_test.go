package semaphoreasynq_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
)

func TestMain(m *testing.M) {
	if url := os.Getenv("WORKER_OF"); url != "" {
		fmt.Println(worker(url, os.Getenv("WORKER_NAME")))
		os.Exit(1)
	}
	testenv.AtOnce(4) // crowds that wait for permits
	os.Exit(testenv.Main(m))
}

var names sync.Map // of runs of tests, by their T

// name is what a run of a test calls its queue and its tasks.
func name(t *testing.T) string {
	name, known := names.LoadOrStore(t, strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")+"-"+rand.Text()[:6]))
	if !known {
		t.Cleanup(func() { names.Delete(t) })
	}
	return name.(string)
}

// dial takes a URL, or the addresses of a cluster.
func dial(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	if addrs := strings.Split(url, ","); len(addrs) > 1 {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
		t.Cleanup(func() { rdb.Close() })
		return rdb
	}
	opts, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// open returns the test's semaphore as one process sees it.
func open(t *testing.T, url string, limit int, lease time.Duration) *semaphore.Semaphore {
	t.Helper()
	sem, err := semaphore.New(dial(t, url), "report", semaphore.Options{Limit: limit, Lease: lease, Namespace: "asynq-" + name(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = sem.Run(ctx) }()
	return sem
}

// work starts a worker of the test's queue, which ends with the test.
func work(t *testing.T, url string, cfg asynq.Config, handler asynq.Handler) {
	t.Helper()
	cfg.Queues = map[string]int{name(t): 1}
	cfg.TaskCheckInterval = 10 * time.Millisecond
	cfg.LogLevel = asynq.FatalLevel
	srv := asynq.NewServerFromRedisClient(dial(t, url), semaphoreasynq.Config(cfg))
	if err := srv.Start(handler); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
}

// enqueue sends n tasks whose payload is their number.
func enqueue(t *testing.T, url, kind string, n int, opts ...asynq.Option) {
	t.Helper()
	client := asynq.NewClientFromRedisClient(dial(t, url))
	for i := range n {
		id := fmt.Sprintf("%s-%s-%d", name(t), kind, i)
		opts := append([]asynq.Option{asynq.Queue(name(t)), asynq.TaskID(id)}, opts...)
		if _, err := client.EnqueueContext(t.Context(), asynq.NewTask(kind, []byte(strconv.Itoa(i))), opts...); err != nil {
			t.Fatal(err)
		}
	}
}

func number(t *asynq.Task) int {
	n, _ := strconv.Atoi(string(t.Payload()))
	return n
}

// last for a while, or until ctx ends.
func last(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
