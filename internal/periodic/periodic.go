// Package periodic repeats calls and waits, until a context ends.
package periodic

import (
	"context"
	"math/rand/v2"
	"time"
)

// Every calls turn after each interval d until ctx ends. It then returns ctx's error.
func Every(ctx context.Context, d time.Duration, turn func()) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			turn()
		}
	}
}

// Until calls done now and after each interval d, until it returns true or ctx ends. It then returns ctx's error.
func Until(ctx context.Context, d time.Duration, done func() bool) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// Woken calls turn now, d plus up to a tenth after the end of each turn, and whenever wake receives, until ctx ends. It then
// returns ctx's error. wake may be nil. The random tenth keeps processes that started together from running at the same times.
func Woken(ctx context.Context, d time.Duration, wake <-chan struct{}, turn func()) error {
	for {
		turn()
		timer := time.NewTimer(d + rand.N(d/10+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Pause waits for d, or until ctx ends, and reports whether ctx has not ended.
func Pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Jitter extends d by a random time of up to a half, so that callers that wait together do not return together.
func Jitter(d time.Duration) time.Duration { return d + rand.N(d/2+1) }
