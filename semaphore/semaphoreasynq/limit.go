package semaphoreasynq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/internal/redisscript"
	"github.com/tidegate/tidegate/semaphore"
)

// Options of LimitWith.
type Options struct {
	// Queue is the Redis client of Asynq's queues. If set, a permit released in this process wakes the task that was put back first,
	// which then runs before all pending ones. With nil, tasks return only when their delay ends; delays are whole seconds, so permits
	// may stay idle that long.
	Queue redisscript.Client
	// Types are the task types that need a permit. Empty means all.
	Types []string
	// Wait is how long a task waits in its worker before it is put back. 0 means 50 ms.
	Wait time.Duration
	// MaxBlocking is how many tasks of this process may block in their workers until they get a permit, for at most a quarter of their
	// timeout, instead of being put back. They are in the semaphore's queue with all other callers, so that a freed permit reaches
	// them at once and no later caller overtakes them. Each occupies one of the server's Concurrency workers, and a server that
	// shuts down waits for them, unless its BaseContext ends. 0 means none.
	MaxBlocking int
	// Request returns what a task acquires: the weight, other semaphores, the holder's name. ID and Try are ignored, because two runs
	// must never share a permit. An error fails the task. nil acquires one permit in the name of the task.
	Request func(context.Context, *asynq.Task) (semaphore.Request, error)
}

const (
	defaultWait = 50 * time.Millisecond
	// A task without retries stops waiting this long before its deadline, to return an error that states the reason.
	errorMargin   = 100 * time.Millisecond
	blockingShare = 4           // a blocking task waits at most this fraction of the time until its deadline
	retryPause    = time.Second // between two attempts to acquire while the semaphore's Redis fails
)

// Limit makes tasks of these types wait for a permit of sem; other tasks run at once. No types means all. The server needs Config. For
// queue see Options.Queue.
func Limit(sem *semaphore.Semaphore, queue redisscript.Client, types ...string) asynq.MiddlewareFunc {
	return LimitWith(sem, Options{Queue: queue, Types: types})
}

// LimitWith is Limit with all options.
func LimitWith(sem *semaphore.Semaphore, opts Options) asynq.MiddlewareFunc {
	if opts.Wait <= 0 {
		opts.Wait = defaultWait
	}
	if opts.Request == nil {
		opts.Request = defaultRequest
	}
	opts.Types = slices.Clone(opts.Types)
	l := &limiter{sem: sem, opts: opts, blocking: make(chan struct{}, max(0, opts.MaxBlocking)), backlog: newBacklog()}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			if len(opts.Types) > 0 && !slices.Contains(opts.Types, t.Type()) {
				return next.ProcessTask(ctx, t)
			}
			return l.process(ctx, t, next)
		})
	}
}

func defaultRequest(ctx context.Context, t *asynq.Task) (semaphore.Request, error) {
	id, _ := asynq.GetTaskID(ctx)
	return semaphore.Request{Holder: semaphore.HolderName(t.Type() + " " + id)}, nil
}

type limiter struct {
	sem      *semaphore.Semaphore
	opts     Options
	blocking chan struct{} // one element for each blocking task
	backlog  *backlog
}

func (l *limiter) process(ctx context.Context, t *asynq.Task, next asynq.Handler) error {
	req, err := l.opts.Request(ctx, t)
	if err != nil {
		return err
	}
	req.ID, req.Try = "", false // each run gets a separate permit
	retried, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	for {
		var permit *semaphore.Permit
		if retried < most {
			permit, err = l.acquire(ctx, req)
		} else {
			permit, err = l.await(ctx, req)
		}
		if err != nil {
			return err
		}
		lost, err := l.run(ctx, t, permit, next)
		switch {
		case err == nil || !lost:
			return err
		case retried < most:
			return &putBack{fmt.Errorf("%w, and with it the work: %w", semaphore.ErrPermitLost, err), periodic.Jitter(retryPause)}
		}
	}
}

// acquire waits for a permit for a short time. If it gets none, its error puts the task back.
func (l *limiter) acquire(ctx context.Context, req semaphore.Request) (*semaphore.Permit, error) {
	id := idOf(ctx)
	waiting, cancel := l.waiting(ctx, l.backlog.returned(id))
	defer cancel()
	permit, full, err := l.sem.AcquireWith(waiting, req)
	switch {
	case permit != nil:
		l.backlog.drop(id)
		return permit, nil
	case errors.Is(err, semaphore.ErrInvalid):
		l.backlog.drop(id)
		return nil, err // waiting does not help, whatever the cause
	case ctx.Err() != nil:
		return nil, cmp.Or(err, ctx.Err()) // the task was cancelled or timed out: Asynq handles it
	case full != nil:
		err = l.atCapacity(full)
	default:
		full = &semaphore.Refusal{} // unknown outcome: put back as if there were no permit, so that the tasks return one by one
	}
	return nil, &putBack{err, l.backlog.add(id, full, time.Now())}
}

// atCapacity returns the error of a task that got no permit.
func (l *limiter) atCapacity(full *semaphore.Refusal) error {
	return fmt.Errorf("semaphore: %s is at capacity, position %d", l.sem.Name(), full.Position)
}

// waiting returns the context for waiting for a permit.
func (l *limiter) waiting(ctx context.Context, known bool) (context.Context, context.CancelFunc) {
	select {
	case l.blocking <- struct{}{}:
		cancel := context.CancelFunc(func() {})
		if end, ok := ctx.Deadline(); ok { // the rest is for the work
			ctx, cancel = context.WithTimeout(ctx, time.Until(end)/blockingShare)
		}
		return ctx, func() { cancel(); <-l.blocking }
	default:
	}
	wait := l.opts.Wait
	if !known && l.backlog.len() > 0 {
		wait /= 10 // with many tasks put back, new ones should not occupy a worker for long
	}
	return context.WithTimeout(ctx, wait)
}

// await waits for a permit until shortly before the task's deadline. Its error ends the task.
func (l *limiter) await(ctx context.Context, req semaphore.Request) (*semaphore.Permit, error) {
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		waiting, cancel = context.WithDeadline(ctx, end.Add(-errorMargin))
	}
	defer cancel()
	for {
		permit, full, err := l.sem.AcquireWith(waiting, req)
		switch {
		case permit != nil || errors.Is(err, semaphore.ErrInvalid):
			return permit, err
		case full != nil:
			err = l.atCapacity(full)
		}
		if !periodic.Pause(waiting, retryPause) {
			return nil, fmt.Errorf("semaphoreasynq: no permit in time for a task that cannot be put back, because it has no retries left; "+
				"enqueue it with asynq.MaxRetry(1) or more: %w", err)
		}
	}
}

// run calls next while the permit is held.
func (l *limiter) run(ctx context.Context, t *asynq.Task, permit *semaphore.Permit, next asynq.Handler) (lost bool, err error) {
	defer func() {
		// A permit that cannot be released ends with its lease.
		if permit.Release() == nil && l.opts.Queue != nil {
			l.wake(ctx)
		}
	}()
	work, cancel := permit.WithContext(context.WithValue(ctx, permitKey{}, permit))
	defer cancel()
	err = next.ProcessTask(work, t)
	return permit.Context().Err() != nil, err
}

type permitKey struct{}

// PermitOf returns the permit of the handler that runs under ctx, whose Token fences its writes; nil if there is none.
func PermitOf(ctx context.Context) *semaphore.Permit {
	permit, _ := ctx.Value(permitKey{}).(*semaphore.Permit)
	return permit
}
