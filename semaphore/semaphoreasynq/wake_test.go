package semaphoreasynq_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
)

// A task that this process has put back may be done, archived or deleted meanwhile by others. It is not run once more.
func TestWakingRunsNothingAgain(t *testing.T) {
	url := testenv.Redis(t)
	sem := open(t, url, 1, 0)
	permit, _, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan int, 10)
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.Limit(sem, dial(t, url), "heavy", "first"))
	mux.HandleFunc("heavy", func(_ context.Context, task *asynq.Task) error { ran <- number(task); return nil })
	mux.HandleFunc("first", func(context.Context, *asynq.Task) error { ran <- -1; return nil })
	cfg := asynq.Config{DelayedTaskCheckInterval: time.Hour} // nobody comes without being woken
	work(t, url, cfg, mux)
	inspector := asynq.NewInspectorFromRedisClient(dial(t, url))
	enqueue(t, url, "heavy", 4, asynq.Retention(time.Hour))
	for _, id := range []string{"heavy-0", "heavy-1", "heavy-2", "heavy-3"} {
		find(t, url, id, asynq.TaskStateRetry)
	}
	q := name(t)
	err = errors.Join(inspector.ArchiveTask(q, q+"-heavy-0"), inspector.DeleteTask(q, q+"-heavy-1"))
	// As another worker would leave it.
	rdb, prefix := dial(t, url), "asynq:{"+q+"}:"
	err = errors.Join(err, rdb.ZRem(t.Context(), prefix+"retry", q+"-heavy-2").Err(),
		rdb.ZAdd(t.Context(), prefix+"completed", redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: q + "-heavy-2"}).Err(),
		rdb.HSet(t.Context(), prefix+"t:"+q+"-heavy-2", "state", "completed").Err())
	if err != nil {
		t.Fatal(err)
	}
	if err := permit.Release(); err != nil {
		t.Fatal(err)
	}
	enqueue(t, url, "first", 1) // gives back the permit that wakes the next
	if got := []int{take(t, ran), take(t, ran)}; got[0] != -1 || got[1] != 3 {
		t.Errorf("%v ran", got)
	}
	find(t, url, "heavy-0", asynq.TaskStateArchived)
	find(t, url, "heavy-2", asynq.TaskStateCompleted)
	find(t, url, "heavy-3", asynq.TaskStateCompleted)
}

// A task that this process has put back may have run in another one meanwhile, and failed. It keeps its delay and its retries.
func TestWakingLeavesFailuresAlone(t *testing.T) {
	url := testenv.Redis(t)
	sem := open(t, url, 1, 0)
	permit, _, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan string, 10)
	var elsewhere atomic.Bool
	mux := asynq.NewServeMux()
	here, there := semaphoreasynq.Limit(sem, dial(t, url)), semaphoreasynq.Limit(open(t, url, 1, 0), dial(t, url))
	mux.Use(func(next asynq.Handler) asynq.Handler {
		if elsewhere.Load() {
			return there(next)
		}
		return here(next)
	})
	mux.HandleFunc("bad", func(context.Context, *asynq.Task) error { ran <- "bad"; return errors.New("a bug") })
	mux.HandleFunc("good", func(context.Context, *asynq.Task) error { ran <- "good"; return nil })
	mux.HandleFunc("first", func(context.Context, *asynq.Task) error { ran <- "first"; return nil })
	work(t, url, asynq.Config{
		DelayedTaskCheckInterval: time.Hour, // nobody comes without being woken
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 10 * time.Minute },
	}, mux)
	for _, kind := range []string{"bad", "good"} {
		enqueue(t, url, kind, 1, asynq.Retention(time.Hour))
		find(t, url, kind+"-0", asynq.TaskStateRetry)
	}
	elsewhere.Store(true)
	if err := permit.Release(); err != nil {
		t.Fatal(err)
	}
	if err := asynq.NewInspectorFromRedisClient(dial(t, url)).RunTask(name(t), name(t)+"-bad-0"); err != nil {
		t.Fatal(err)
	}
	got := []string{take(t, ran)}
	for find(t, url, "bad-0", asynq.TaskStateRetry).Retried != 1 {
	}
	elsewhere.Store(false)
	enqueue(t, url, "first", 1) // gives back the permit that wakes the next
	if got = append(got, take(t, ran), take(t, ran)); !slices.Equal(got, []string{"bad", "first", "good"}) {
		t.Errorf("%v ran", got)
	}
	find(t, url, "good-0", asynq.TaskStateCompleted)
	if bad := find(t, url, "bad-0", asynq.TaskStateRetry); bad.Retried != 1 || time.Until(bad.NextProcessAt) < 9*time.Minute {
		t.Errorf("%d retried, comes again at %v", bad.Retried, bad.NextProcessAt)
	}
}
