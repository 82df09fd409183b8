package semaphoreasynq_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
)

// A blocking task is in the queue with all other callers, which keep the queue non-empty.
func TestBlockingTaskIsNotOvertaken(t *testing.T) {
	url := testenv.Redis(t)
	sem := open(t, url, 1, 0)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for range 10 { // so that a place in the queue takes ten times as long as a task waits that does not block
		others.Go(func() {
			for ctx.Err() == nil {
				permit, _, _ := sem.Acquire(ctx)
				if permit == nil { // ctx has ended
					return
				}
				_ = last(ctx, 50*time.Millisecond)
				if err := permit.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	await(t, sem, 1)
	c := &crowd{tries: map[string]int{}, all: make(chan struct{})}
	mux := asynq.NewServeMux()
	mux.Use(c.count, semaphoreasynq.LimitWith(sem, semaphoreasynq.Options{Queue: dial(t, url), MaxBlocking: 1}))
	mux.Handle("heavy", c.heavy(0, 3))
	enqueue(t, url, "heavy", 3)
	base, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	work(t, url, asynq.Config{BaseContext: func() context.Context { return base }}, mux)
	take(t, c.all)
	c.mu.Lock()
	defer c.mu.Unlock()
	tried := 0
	for _, n := range c.tries {
		tried += n
	}
	if c.tries[name(t)+"-heavy-0"] > 2 || tried > 20 {
		t.Errorf("%v", c.tries)
	}
}

// A blocking task is put back early enough to have time left for its work.
func TestBlockingEnds(t *testing.T) {
	url := testenv.Redis(t)
	sem := open(t, url, 1, 0)
	permit, _, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer permit.Release() //nolint:errcheck // the test is over
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.LimitWith(sem, semaphoreasynq.Options{MaxBlocking: 1}))
	mux.HandleFunc("heavy", func(context.Context, *asynq.Task) error { t.Error("without a permit"); return nil })
	work(t, url, asynq.Config{}, mux)
	enqueue(t, url, "heavy", 1, asynq.Timeout(2*time.Second))
	if info := find(t, url, "heavy-0", asynq.TaskStateRetry); info.Retried != 0 {
		t.Errorf("%d retried, %s", info.Retried, info.LastErr)
	}
}
