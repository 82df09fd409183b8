package rehearse

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	pollHold    = 10 * time.Second       // of one long poll
	pollPause   = 50 * time.Millisecond  // before the next look when the server does not say
	patience404 = 5                      // looks at an order that is not found, before its buyer gives up
	accepted    = "accepted"             // the one status that is not the end of an order's wait
	shortPoll   = 100 * time.Millisecond // a long poll that comes back sooner with nothing new was not held
)

// followAll follows orders until the queue is closed and empty, or ctx ends.
func followAll(ctx context.Context, n int, queue <-chan placed, follow func(context.Context, placed)) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for p := range queue {
				if ctx.Err() == nil {
					follow(ctx, p)
				}
			}
		})
	}
	wg.Wait()
}

// followOne looks at an order until it is no longer accepted, and records each status that is new to its buyer.
func (c *crowd) followOne(ctx context.Context, apis []*public, p placed) {
	last, missing, since := p.state, 0, time.Since(c.start)
	for {
		begun := time.Since(c.start)
		r, err := apis[p.api].status(ctx, p.buyer, p.id, pollHold)
		ended, wait := time.Since(c.start), pollPause
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && r.code == http.StatusOK && r.Status != "":
			if state := string(r.Status); state != last || state != accepted {
				last = state
				c.rec.saw(Sighting{OrderID: p.id, State: state, Since: since, Started: begun, Ended: ended})
			}
			if last != accepted {
				if last != "rejected" {
					c.tally.confirmed.Add(1)
				}
				return
			}
			wait = 0
			if ended-begun < shortPoll {
				wait = max(time.Duration(r.PollAfterMs)*time.Millisecond, pollPause)
			}
		case err == nil && r.code == http.StatusNotFound:
			if missing++; missing == patience404 {
				return
			}
		default:
			p.api = (p.api + 1) % len(apis)
			wait = max(r.retryAfter, c.o.RetryWait)
		}
		if !pause(ctx, min(wait, longestWait)) {
			return
		}
	}
}
