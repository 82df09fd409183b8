package semaphoreasynq_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore/semaphoreasynq"
)

// A crowd is what was seen of many tasks.
type crowd struct {
	mu           sync.Mutex
	inside, most int
	tries        map[string]int
	started      []int // by number, as they got their permits
	burned       int
	done         int
	all          chan struct{}
}

func (c *crowd) heavy(hold time.Duration, n int) asynq.HandlerFunc {
	return func(ctx context.Context, t *asynq.Task) error {
		c.mu.Lock()
		c.inside++
		c.most = max(c.most, c.inside)
		c.started = append(c.started, number(t))
		retried, _ := asynq.GetRetryCount(ctx)
		c.burned += retried
		c.mu.Unlock()
		err := last(ctx, hold)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.inside--
		if c.done++; c.done == n {
			close(c.all)
		}
		return err
	}
}

// count counts how often each task comes, with or without a permit.
func (c *crowd) count(next asynq.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		c.mu.Lock()
		id, _ := asynq.GetTaskID(ctx)
		c.tries[id]++
		c.mu.Unlock()
		return next.ProcessTask(ctx, t)
	})
}

// correlation is Spearman's, and displacement how far a task was from its place, on average and at most.
func (c *crowd) order() (correlation, mean float64, most int) {
	var squares float64
	for place, number := range c.started {
		d := place - number
		squares += float64(d * d)
		mean += float64(max(d, -d)) / float64(len(c.started))
		most = max(most, d, -d)
	}
	n := float64(len(c.started))
	return 1 - 6*squares/(n*(n*n-1)), mean, most
}

// 100 tasks over a cap of 2, for two servers of 10 workers each: never more than two at once, no retry burned, no busy loop, their order roughly
// kept, and other tasks go on.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for kind, tt := range map[string]struct {
		wake     bool
		blocking int
		tasks    int
		url      string
		tries    float64 // of a task, on average
		order    float64 // the rank correlation that is wanted
	}{
		"woken":    {true, 0, 100, testenv.Redis(t), 6, 0.7},
		"blocking": {true, 1, 100, testenv.Redis(t), 6, 0.7},
		"cluster":  {true, 0, 30, strings.Join(testenv.RedisCluster(t), ","), 6, 0.2},
		"alone":    {false, 0, 12, testenv.Redis(t), 12, -1},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const light, hold = 200, 100 * time.Millisecond
			tasks := tt.tasks
			url := tt.url
			c := &crowd{tries: map[string]int{}, all: make(chan struct{})}
			var others sync.WaitGroup
			others.Add(light)
			enqueue(t, url, "heavy", tasks)
			enqueue(t, url, "light", light)
			began := time.Now()
			for range 2 {
				opts := semaphoreasynq.Options{Types: []string{"heavy"}, MaxBlocking: tt.blocking}
				if tt.wake {
					opts.Queue = dial(t, url)
				}
				mux := asynq.NewServeMux()
				mux.Use(c.count, semaphoreasynq.LimitWith(open(t, url, 2, 0), opts))
				mux.Handle("heavy", c.heavy(hold, tasks))
				mux.HandleFunc("light", func(context.Context, *asynq.Task) error { others.Done(); return nil })
				work(t, url, asynq.Config{Concurrency: 10}, mux)
			}
			others.Wait()
			c.mu.Lock()
			ahead, since := c.done, time.Since(began)
			c.mu.Unlock()
			select {
			case <-c.all:
			case <-t.Context().Done():
				t.Fatalf("%d done", c.done)
			}
			took := time.Since(began)
			c.mu.Lock()
			defer c.mu.Unlock()
			total, worst := 0, 0
			for id, n := range c.tries {
				if id[len(name(t))+1] == 'h' {
					total, worst = total+n, max(worst, n)
				}
			}
			correlation, mean, most := c.order()
			t.Logf("%v in all (best %v); at most %d at once; %d retries burned; %.2f tries of a task, at most %d; "+
				"rank correlation %.3f, out of place by %.1f, at most %d; %d other tasks done after %v, before %d of the %d",
				took.Round(time.Millisecond), time.Duration(tasks)*hold/2, c.most, c.burned, float64(total)/float64(tasks), worst, correlation, mean, most, light,
				since.Round(time.Millisecond), tasks-ahead, tasks)
			if c.most != 2 || c.burned != 0 || len(c.started) != tasks {
				t.Errorf("%d at once, %d retries burned, %d runs", c.most, c.burned, len(c.started))
			}
			if float64(total)/float64(tasks) > tt.tries {
				t.Errorf("%d tries", total)
			}
			if correlation < tt.order {
				t.Errorf("rank correlation %.3f", correlation)
			}
			if ahead > tasks/2 {
				t.Errorf("other tasks waited for %d heavy ones", ahead)
			}
		})
	}
}
