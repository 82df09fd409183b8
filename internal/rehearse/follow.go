package rehearse

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/tidegate/tidegate/internal/judge"
	"github.com/tidegate/tidegate/internal/periodic"
	"github.com/tidegate/tidegate/orders"
)

const (
	pollHold  = 10 * time.Second       // of one long poll
	pollPause = 50 * time.Millisecond  // before the next read if the server gives no interval
	max404    = 5                      // reads with 404 before the buyer gives up
	shortPoll = 100 * time.Millisecond // a long poll that returns sooner without a change was not held by the server
)

// followAll follows orders until the queue is closed and empty. After ctx ends it only empties the queue.
func followAll(n int, queue <-chan *placed, follow func(*placed)) {
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for p := range queue {
				follow(p)
			}
		})
	}
	wg.Wait()
}

// followOne reads an order until it has left the status that its buyer waits in, and records each new status. Then it starts
// the order's operation, if that has not started.
func (c *crowd) followOne(ctx context.Context, apis []*public, p *placed) {
	defer c.live.Done()
	missing, since, last := 0, time.Since(c.start), p.state
	for ctx.Err() == nil {
		begun := time.Since(c.start)
		r, err := apis[p.api].status(ctx, p.user, p.id, p.while, pollHold)
		ended, wait := time.Since(c.start), pollPause
		switch {
		case err == nil && r.code == http.StatusOK && r.Status != "":
			if state := r.Status; state != last || state != p.while {
				last = state
				c.rec.record(line{StatusRead: &judge.StatusRead{OrderID: p.id, State: state, Since: since, Started: begun, Ended: ended}})
			}
			if last != p.while {
				if p.while == orders.StatusAccepted {
					if last != orders.StatusRejected {
						c.tally.confirmed.Add(1)
					}
					p.state = last
					c.live.Go(func() { c.carryOut(ctx, p, r.payBefore()) })
				}
				return
			}
			wait = 0
			if ended-begun < shortPoll {
				wait = max(time.Duration(r.PollAfterMS)*time.Millisecond, pollPause)
			}
		case err == nil && r.code == http.StatusNotFound:
			if missing++; missing == max404 {
				return
			}
		default:
			p.api = (p.api + 1) % len(apis)
			wait = max(r.retryAfter, c.o.RetryWait)
		}
		periodic.Pause(ctx, min(wait, longestWait))
	}
}
