package semaphoreasynq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
)

// Config returns cfg with what a server needs whose tasks Limit puts back: that is no failure, costs no retry and is no matter for the
// ErrorHandler, and they come back when they should. What cfg says of all other errors holds. Delayed tasks are looked at every second, where cfg
// says nothing, instead of every five.
func Config(cfg asynq.Config) asynq.Config {
	isFailure, delay, handler := cfg.IsFailure, cfg.RetryDelayFunc, cfg.ErrorHandler
	cfg.IsFailure = func(err error) bool {
		if IsPutBack(err) {
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
			if !IsPutBack(err) {
				handler.HandleError(ctx, t, err)
			}
		})
	}
	if cfg.DelayedTaskCheckInterval == 0 {
		cfg.DelayedTaskCheckInterval = time.Second
	}
	return cfg
}

// IsPutBack tells whether a handler's error is that of Limit, which puts the task back: it got no permit, or has lost it.
func IsPutBack(err error) bool {
	var back *putBack
	return errors.As(err, &back)
}

// putBack is the error of a task that shall come again at no cost.
type putBack struct {
	err   error
	delay time.Duration
}

// Error begins with words that wake.lua looks for.
func (e *putBack) Error() string {
	return fmt.Sprintf("semaphoreasynq: put back for %v: %v", e.delay.Round(time.Millisecond), e.err)
}
func (e *putBack) Unwrap() error { return e.err }

// jitter makes a time up to a half longer, so that those who were put back together do not come back together.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2+1) }
