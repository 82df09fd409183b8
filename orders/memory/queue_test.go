package memory_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/orders/internal/tasks"
	"github.com/tidegate/tidegate/orders/memory"
)

// delivery is a task that a worker was given, and when.
type delivery struct {
	id    string
	after time.Duration
}

// work lets a process work until ctx ends, and returns what it was given. handle is called with the number of the delivery, from 1.
func work(ctx context.Context, q *memory.QueueConn, handle func(n int) error) (given func() []delivery) {
	var (
		mu    sync.Mutex
		all   []delivery
		done  = make(chan struct{})
		began = time.Now()
	)
	go func() {
		defer close(done)
		_ = q.Work(ctx, tasks.Worker{
			Queues: []string{"a", "b"}, Concurrent: 2, Delay: func(error) time.Duration { return time.Minute },
			Handle: func(_ context.Context, t tasks.Task) error {
				mu.Lock()
				all = append(all, delivery{t.ID, time.Since(began)})
				n := len(all)
				mu.Unlock()
				return handle(n)
			},
		})
	}()
	return func() []delivery { <-done; return all }
}

func TestQueue(t *testing.T) {
	task := func(id string) tasks.Task { return tasks.Task{ID: id, Queue: "a"} }
	never := func(int) error { return nil }
	for _, c := range []struct {
		name string
		opts memory.QueueOptions
		run  func(t *testing.T, ctx context.Context, q *memory.Queue) func() []delivery
		want []delivery
	}{
		{"a task comes once", memory.QueueOptions{}, func(t *testing.T, ctx context.Context, q *memory.Queue) func() []delivery {
			putTask(t, q, task("x"), 0)
			putTask(t, q, task("x"), 0) // it is there already
			putTask(t, q, tasks.Task{ID: "y", Queue: "other"}, 0)
			return work(ctx, q.Connect(), never)
		}, []delivery{{"x", 0}}},
		{"a task that waits for later", memory.QueueOptions{}, func(t *testing.T, ctx context.Context, q *memory.Queue) func() []delivery {
			putTask(t, q, task("x"), 3*time.Second)
			return work(ctx, q.Connect(), never)
		}, []delivery{{"x", 3 * time.Second}}},
		{"a task that failed comes again", memory.QueueOptions{}, func(t *testing.T, ctx context.Context, q *memory.Queue) func() []delivery {
			putTask(t, q, task("x"), 0)
			return work(ctx, q.Connect(), func(n int) error {
				if n == 1 {
					return errors.New("failed")
				}
				return tasks.ErrDrop
			})
		}, []delivery{{"x", 0}, {"x", time.Minute}}},
		{
			"a task of a process that left comes after its lease",
			memory.QueueOptions{Lease: 10 * time.Second},
			func(t *testing.T, ctx context.Context, q *memory.Queue) func() []delivery {
				putTask(t, q, task("x"), 0)
				first := q.Connect()
				work(ctx, first, func(int) error { first.Disconnect(); return nil })
				synctest.Wait()
				if err := first.Put(ctx, task("y"), 0); !errors.Is(err, memory.ErrQueueDown) {
					t.Errorf("a process that left puts a task: %v", err)
				}
				if _, err := first.Tasks(ctx, []string{"a"}); !errors.Is(err, memory.ErrQueueDown) {
					t.Errorf("a process that left counts tasks: %v", err)
				}
				return work(ctx, q.Connect(), never)
			},
			[]delivery{{"x", 10 * time.Second}},
		},
		{"a task comes twice", memory.QueueOptions{TwiceIn: 1}, func(t *testing.T, ctx context.Context, q *memory.Queue) func() []delivery {
			putTask(t, q, task("x"), 0)
			return work(ctx, q.Connect(), never)
		}, []delivery{{"x", 0}, {"x", 0}}},
		{"dropped tasks never come", memory.QueueOptions{}, func(t *testing.T, ctx context.Context, q *memory.Queue) func() []delivery {
			putTask(t, q, task("x"), 0)
			q.Drop()
			return work(ctx, q.Connect(), never)
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				got := c.run(t, ctx, memory.NewQueue(c.opts))()
				if len(got) != len(c.want) {
					t.Fatalf("got %v, not %v", got, c.want)
				}
				for i := range got {
					if got[i] != c.want[i] {
						t.Errorf("got %v, not %v", got, c.want)
					}
				}
			})
		})
	}
}

func putTask(t *testing.T, q *memory.Queue, task tasks.Task, delay time.Duration) {
	t.Helper()
	if err := q.Connect().Put(t.Context(), task, delay); err != nil {
		t.Fatal(err)
	}
}

func TestQueueLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		q := memory.NewQueue(memory.QueueOptions{LateIn: 1, Rand: rand.New(rand.NewPCG(1, 1))})
		for _, id := range []string{"1", "2", "3", "4"} {
			putTask(t, q, tasks.Task{ID: id, Queue: "b"}, 0)
		}
		counts, err := q.Connect().Tasks(ctx, []string{"b"})
		if err != nil || counts["pending"] != 4 || q.Connect().Spread() != 1 {
			t.Errorf("got %v %v", counts, err)
		}
		got := work(ctx, q.Connect(), func(int) error { return nil })()
		inOrder := true
		for i, d := range got {
			if d.after <= 0 || d.after > 10*time.Second {
				t.Errorf("late by %v", d.after)
			}
			inOrder = inOrder && (i == 0 || d.id > got[i-1].id)
		}
		if len(got) != 4 || inOrder {
			t.Errorf("got %v", got)
		}
	})
}
