package queue

import (
	"context"
	"slices"
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
}

func (q *slowQueue) Spread() int { return 1 }

func (q *slowQueue) Put(context.Context, tasks.Task, time.Duration) error {
	q.began = append(q.began, time.Now())
	time.Sleep(q.takes(len(q.began)))
	return nil
}

// Tasks are further apart the more orders arrive while one is sent, and a single slow one changes little.
func TestTasksGatherOrders(t *testing.T) {
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	for name, v := range map[string]struct {
		apart       time.Duration // orders
		takes       func(n int) time.Duration
		least, most time.Duration // between two tasks
	}{
		"too seldom to rest":            {10 * time.Millisecond, always(time.Millisecond), 10 * time.Millisecond, 10 * time.Millisecond},
		"few while a task is sent":      {500 * time.Microsecond, always(time.Millisecond), gatherFor, gatherFor + 2*time.Millisecond},
		"more than processors can take": {250 * time.Microsecond, always(4 * time.Millisecond), 5 * gatherFor, 7 * gatherFor},
		"no end":                        {10 * time.Microsecond, always(4 * time.Millisecond), gatherMost, gatherMost + 5*time.Millisecond},
		"one is slow": {500 * time.Microsecond, func(n int) time.Duration {
			if n == 50 {
				return 20 * time.Millisecond
			}
			return time.Millisecond
		}, gatherFor, 33 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &slowQueue{takes: v.takes}
				e := New(&core.Core{}, q)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- e.Enqueue(ctx) }()
				for range int(2 * time.Second / v.apart) {
					e.Offer(orders.Reservation{}, trace.SpanContext{})
					time.Sleep(v.apart)
				}
				stop()
				<-ended
				var apart []time.Duration
				for i := 20; i < len(q.began); i++ {
					apart = append(apart, q.began[i].Sub(q.began[i-1]))
				}
				if least, most := slices.Min(apart), slices.Max(apart); least < v.least || most > v.most {
					t.Errorf("%v to %v between tasks, want %v to %v", least, most, v.least, v.most)
				}
			})
		})
	}
}
