package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// slowQueue notes when tasks arrive, each of which takes a while.
type slowQueue struct {
	tasks.Queue
	takes func(n int) time.Duration
	began []time.Time
	ended []time.Time
}

func (q *slowQueue) Spread() int { return 1 }

func (q *slowQueue) Put(context.Context, tasks.Task, time.Duration) error {
	q.began = append(q.began, time.Now())
	time.Sleep(q.takes(len(q.began)))
	q.ended = append(q.ended, time.Now())
	return nil
}

// The more orders arrive while a task is sent, the longer the rest after it, from gatherFor to gatherMost. One slow task hardly changes it,
// and gatherEnough waiting orders end it.
func TestTasksGatherOrders(t *testing.T) {
	const ms = time.Millisecond
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	for name, v := range map[string]struct {
		every       time.Duration // orders arrive this often
		orders      int           // that arrive each time
		takes       func(n int) time.Duration
		least, most time.Duration // from the end of a task to the next
		full        bool          // more orders come than tasks can carry: some are left to the sweeper
	}{
		// A rest would end after this order has come.
		"too seldom to rest":        {5500 * time.Microsecond, 1, always(ms), 4500 * time.Microsecond, 4500 * time.Microsecond, false},
		"few while a task is sent":  {ms, 2, always(ms), gatherFor, gatherFor + ms, false},
		"many while a task is sent": {ms, 4, always(4 * ms), 4 * gatherFor, 6 * gatherFor, false},
		"longest rest":              {ms, 6, always(4 * ms), gatherMost - ms, gatherMost + ms, false},
		"enough for a task":         {ms, 50, always(4 * ms), 0, gatherFor, false},
		"more than tasks can carry": {ms, 200, always(4 * ms), 0, 0, true},
		"one is slow": {ms, 2, func(n int) time.Duration {
			if n == 35 {
				return 900 * ms
			}
			return ms
		}, 0, 2 * gatherFor, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &slowQueue{takes: v.takes}
				e := New(&core.Core{}, q)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- e.Enqueue(ctx) }()
				waiting := 0
				for range int(2 * time.Second / v.every) {
					for range v.orders {
						e.Offer(orders.Reservation{}, trace.SpanContext{})
					}
					time.Sleep(v.every)
					waiting = max(waiting, len(e.offers))
				}
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if full := waiting == cap(e.offers); full != v.full {
					t.Errorf("the channel was full: %v, want %v", full, v.full)
				}
				const settled = 30 // tasks until the average has followed
				if len(q.began) < settled+10 {
					t.Fatalf("%d tasks in two seconds, too few to judge", len(q.began))
				}
				for i := settled; i < len(q.began); i++ {
					if rest := q.began[i].Sub(q.ended[i-1]); rest < v.least || rest > v.most {
						t.Fatalf("a rest of %v, want %v to %v", rest, v.least, v.most)
					}
				}
			})
		})
	}
}
