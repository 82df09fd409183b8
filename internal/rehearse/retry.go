package rehearse

import (
	"context"
	"math"
	"time"

	"github.com/tidegate/tidegate/internal/periodic"
)

// forever is a grace of retry that never ends.
const forever = math.MaxInt64

// retry calls ask until it is done, until grace after the deadline (or after now, if that is later), or until ctx ends. Before
// each repeat it waits for the pause that ask returned. It returns false if ctx ended during such a pause.
func retry(ctx context.Context, deadline time.Time, grace time.Duration, ask func() (done bool, pause time.Duration)) bool {
	for until := time.Now().Add(max(time.Until(deadline), 0) + grace); ; {
		done, pause := ask()
		if done || time.Now().After(until) {
			return true
		}
		if !periodic.Pause(ctx, pause) {
			return false
		}
	}
}

// acquire waits for a free slot; false = ctx ended first.
func acquire(ctx context.Context, slots chan<- struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
