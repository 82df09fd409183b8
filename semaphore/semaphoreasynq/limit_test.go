package semaphoreasynq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
)

// find waits until the task is in this state.
func find(t *testing.T, url, id string, want asynq.TaskState) *asynq.TaskInfo {
	t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(dial(t, url))
	for {
		info, err := inspector.GetTaskInfo(name(t), name(t)+"-"+id)
		if err != nil && !errors.Is(err, asynq.ErrTaskNotFound) && !errors.Is(err, asynq.ErrQueueNotFound) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		if err == nil && info.State == want {
			return info
		}
		runtime.Gosched()
	}
}

// await waits until so many permits are held.
func await(t *testing.T, sem *semaphore.Semaphore, inUse int) semaphore.Status {
	t.Helper()
	for {
		st, err := sem.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.InUse == inUse {
			return st
		}
		runtime.Gosched()
	}
}

func take[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-t.Context().Done():
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// Obstacles that are not the task's fault use no retry, and do not reach the error handler.
func TestPutBackIsNoFailure(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	sem := open(t, url, 1, 0)
	permit, _, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var handled atomic.Int64
	ran := make(chan string, 1)
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.Limit(sem, nil, "heavy"))
	mux.HandleFunc("heavy", func(ctx context.Context, _ *asynq.Task) error {
		n, _ := asynq.GetRetryCount(ctx)
		ran <- fmt.Sprintf("%d retries, token %t", n, semaphoreasynq.PermitOf(ctx).Token() > permit.Token())
		return nil
	})
	work(t, url, asynq.Config{ErrorHandler: asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { handled.Add(1) })}, mux)
	enqueue(t, url, "heavy", 1, asynq.MaxRetry(1))
	for range 2 { // it comes twice in vain
		info := find(t, url, "heavy-0", asynq.TaskStateRetry)
		if info.Retried != 0 || !strings.Contains(info.LastErr, "report is at capacity") {
			t.Errorf("%d retried, %s", info.Retried, info.LastErr)
		}
		find(t, url, "heavy-0", asynq.TaskStateActive)
	}
	if err := permit.Release(); err != nil {
		t.Error(err)
	}
	if got := take(t, ran); got != "0 retries, token true" {
		t.Error(got)
	}
	if handled.Load() != 0 {
		t.Errorf("the error handler was called %d times", handled.Load())
	}
}

// Asynq would archive it.
func TestTaskWithoutRetriesWaitsInItsWorker(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	sem := open(t, url, 1, 0)
	permit, _, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan int, 1)
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.Limit(sem, dial(t, url)))
	mux.HandleFunc("waits", func(_ context.Context, task *asynq.Task) error { ran <- number(task); return nil })
	mux.HandleFunc("late", func(context.Context, *asynq.Task) error { t.Error("it had no time left"); return nil })
	work(t, url, asynq.Config{}, mux)
	enqueue(t, url, "late", 1, asynq.MaxRetry(0), asynq.Timeout(time.Second))
	enqueue(t, url, "waits", 1, asynq.MaxRetry(0))
	info := find(t, url, "late-0", asynq.TaskStateArchived)
	if !strings.Contains(info.LastErr, "enqueue it with asynq.MaxRetry(1) or more: semaphore: report is at capacity") {
		t.Error(info.LastErr)
	}
	find(t, url, "waits-0", asynq.TaskStateActive)
	if err := permit.Release(); err != nil {
		t.Error(err)
	}
	take(t, ran)
}

// A task that loses its permit stops, and is put back or, without retries, waits for another permit at once.
func TestLostPermit(t *testing.T) {
	t.Parallel()
	for kind, retries := range map[string]int{"retries": 1, "none": 0} {
		t.Run(kind, func(t *testing.T) {
			url := testenv.Redis(t)
			sem, operator := open(t, url, 1, 0), open(t, url, 1, 0)
			causes, tokens := make(chan error, 1), make(chan int64, 2)
			var runs atomic.Int64
			mux := asynq.NewServeMux()
			mux.Use(semaphoreasynq.Limit(sem, dial(t, url)))
			mux.HandleFunc("heavy", func(ctx context.Context, _ *asynq.Task) error {
				if n, _ := asynq.GetRetryCount(ctx); n != 0 {
					t.Errorf("%d retries burned", n)
				}
				tokens <- semaphoreasynq.PermitOf(ctx).Token()
				if runs.Add(1) == 1 {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return ctx.Err()
				}
				return nil
			})
			work(t, url, asynq.Config{}, mux)
			enqueue(t, url, "heavy", 1, asynq.MaxRetry(retries))
			first := take(t, tokens)
			holder := await(t, operator, 1).Holders[0]
			if holder.Holder != "heavy "+name(t)+"-heavy-0" {
				t.Errorf("held by %q", holder.Holder)
			}
			if err := operator.Release(t.Context(), holder.ID); err != nil {
				t.Error(err)
			}
			if cause := take(t, causes); !errors.Is(cause, semaphore.ErrPermitLost) {
				t.Errorf("the cause is %v", cause)
			}
			if second := take(t, tokens); second <= first {
				t.Errorf("token %d after %d", second, first)
			}
		})
	}
}

// Asynq gives up on a handler that is late and runs the task again, while the first does not stop. Both are at work, so both need a permit.
func TestLateHandlerKeepsItsPermit(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	sem := open(t, url, 1, 0)
	started, stop := make(chan int, 2), make(chan struct{})
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.Limit(sem, dial(t, url)))
	mux.HandleFunc("heavy", func(ctx context.Context, _ *asynq.Task) error {
		n, _ := asynq.GetRetryCount(ctx)
		started <- n
		if n == 0 {
			<-stop
		}
		return nil
	})
	work(t, url, asynq.Config{RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }}, mux)
	enqueue(t, url, "heavy", 1, asynq.MaxRetry(1), asynq.Timeout(time.Second))
	if n := take(t, started); n != 0 {
		t.Errorf("first run is number %d", n)
	}
	// The timeout was a failure, and since then the task has no retry left: it waits in its worker.
	for find(t, url, "heavy-0", asynq.TaskStateActive).Retried != 1 {
	}
	for {
		if st := await(t, sem, 1); st.Waiting == 1 {
			break
		}
	}
	select {
	case <-started:
		t.Error("both at once under one permit")
	default:
	}
	close(stop)
	if n := take(t, started); n != 1 {
		t.Errorf("second run is number %d", n)
	}
}

func TestPanicFreesThePermit(t *testing.T) {
	url := testenv.Redis(t)
	sem := open(t, url, 1, 0)
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.Limit(sem, dial(t, url)))
	mux.HandleFunc("heavy", func(context.Context, *asynq.Task) error { panic("a bug") })
	work(t, url, asynq.Config{}, mux)
	enqueue(t, url, "heavy", 1)
	if info := find(t, url, "heavy-0", asynq.TaskStateRetry); info.Retried != 1 {
		t.Errorf("%d retried: a panic is a failure", info.Retried)
	}
	await(t, sem, 0)
}

// While the semaphore's Redis fails, no task runs, and no retry is used.
func TestSemaphoreIsAway(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	other := testenv.StartRedis(t)
	sem := open(t, other.URL(), 1, 0)
	other.Kill()
	ran := make(chan int, 2)
	mux := asynq.NewServeMux()
	mux.Use(semaphoreasynq.Limit(sem, dial(t, url)))
	mux.HandleFunc("heavy", func(ctx context.Context, _ *asynq.Task) error {
		n, _ := asynq.GetRetryCount(ctx)
		ran <- n
		return nil
	})
	work(t, url, asynq.Config{}, mux)
	enqueue(t, url, "heavy", 2)
	for _, id := range []string{"heavy-0", "heavy-1"} {
		if info := find(t, url, id, asynq.TaskStateRetry); info.Retried != 0 {
			t.Errorf("%d retried, %s", info.Retried, info.LastErr)
		}
	}
	other.Restart()
	for range 2 {
		if n := take(t, ran); n != 0 {
			t.Errorf("%d retried", n)
		}
	}
}

func TestConfigKeepsWhatItIsGiven(t *testing.T) {
	own := errors.New("own")
	plain := semaphoreasynq.Config(asynq.Config{})
	if !plain.IsFailure(own) || plain.IsFailure(nil) || plain.ErrorHandler != nil || plain.DelayedTaskCheckInterval != time.Second || plain.TaskCheckInterval != 20*time.Millisecond {
		t.Error("of nothing comes Asynq's default")
	}
	if d := plain.RetryDelayFunc(0, own, asynq.NewTask("heavy", nil)); d < 15*time.Second {
		t.Errorf("comes back after %v", d)
	}
	handled := 0
	given := semaphoreasynq.Config(asynq.Config{
		IsFailure:                func(err error) bool { return !errors.Is(err, own) },
		RetryDelayFunc:           func(n int, _ error, _ *asynq.Task) time.Duration { return time.Duration(n) },
		ErrorHandler:             asynq.ErrorHandlerFunc(func(context.Context, *asynq.Task, error) { handled++ }),
		DelayedTaskCheckInterval: time.Minute,
		TaskCheckInterval:        time.Hour,
	})
	if given.IsFailure(own) || !given.IsFailure(asynq.ErrLeaseExpired) || given.RetryDelayFunc(7, own, nil) != 7 || given.DelayedTaskCheckInterval != time.Minute || given.TaskCheckInterval != time.Hour {
		t.Error("what was given is overruled")
	}
	given.ErrorHandler.HandleError(t.Context(), nil, own)
	if handled != 1 {
		t.Errorf("handled %d times", handled)
	}
}
