package semaphoreasynq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// Config returns cfg adapted to Limit: a task that Limit puts back does not count as a failure, uses no retry, does not reach the
// ErrorHandler, and is retried after the delay that Limit chose. Other errors are handled as cfg defines. Delayed tasks are checked every
// second instead of every five, and empty queues every 20 ms instead of every second, so that a woken task starts at once, unless cfg sets
// these intervals.
func Config(cfg asynq.Config) asynq.Config {
	isFailure, delay, handler := cfg.IsFailure, cfg.RetryDelayFunc, cfg.ErrorHandler
	cfg.IsFailure = func(err error) bool {
		if isPutBack(err) {
			return false
		}
		return err != nil && (isFailure == nil || isFailure(err))
	}
	if delay == nil {
		delay = asynq.DefaultRetryDelayFunc
	}
	cfg.RetryDelayFunc = func(n int, err error, t *asynq.Task) time.Duration {
		var back *putBack
		if errors.As(err, &back) {
			return back.delay
		}
		return delay(n, err, t)
	}
	if handler != nil {
		cfg.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, t *asynq.Task, err error) {
			if !isPutBack(err) {
				handler.HandleError(ctx, t, err)
			}
		})
	}
	if cfg.DelayedTaskCheckInterval == 0 {
		cfg.DelayedTaskCheckInterval = time.Second
	}
	if cfg.TaskCheckInterval == 0 {
		cfg.TaskCheckInterval = 20 * time.Millisecond
	}
	return cfg
}

// isPutBack reports whether a handler's error means that Limit has put the task back: it got no permit, or has lost it.
func isPutBack(err error) bool {
	var back *putBack
	return errors.As(err, &back)
}

// putBack is the error of a task that is to be retried without using a retry.
type putBack struct {
	err   error
	delay time.Duration
}

// Error begins with the words that wake.lua looks for.
func (e *putBack) Error() string {
	return fmt.Sprintf("semaphoreasynq: put back for %v: %v", e.delay.Round(time.Millisecond), e.err)
}
func (e *putBack) Unwrap() error { return e.err }
