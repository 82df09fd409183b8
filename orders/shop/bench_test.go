package shop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/jackc/pgx/v5"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// BenchmarkCommit drains a queue of accepted orders into Postgres, with fsync on: once with this package, and once with a naive
// handler, with one insert and one update of the stock's row per task. The naive handler has the servers, concurrency and
// queues that suit it.
func BenchmarkCommit(b *testing.B) {
	b.Run("batched", func(b *testing.B) {
		in := installDurable(b)
		p := in.start(func(o *shop.Options) { o.MaxRemembered = 10_000_000 })
		sale := in.sale(p, func(s *orders.Sale) {
			s.Items[0].Stock, s.Items[0].InFlightMax = orders.MaxStock, orders.MaxInFlight
		})
		placeMany(b, p, sale.ID, b.N)
		eventually(b, "all are queued", func() bool { return in.queued() == b.N })
		b.ResetTimer()
		in.work(p)
		in.drained(`SELECT count(*) FROM orders WHERE status = 'confirmed'`, b.N)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
	})
	b.Run("naive", func(b *testing.B) {
		in := installDurable(b)
		p := in.start()
		_, err := in.pool.Exec(b.Context(), `
			CREATE TABLE naive_stock (item text PRIMARY KEY, stock integer NOT NULL CHECK (stock >= 0));
			INSERT INTO naive_stock VALUES ('shoe', 1000000000);
			CREATE TABLE naive_orders (order_id text PRIMARY KEY, item text NOT NULL, buyer text NOT NULL)`)
		must(b, err)
		client := asynq.NewClientFromRedisClient(p.queue)
		for i := range b.N {
			_, err := client.EnqueueContext(b.Context(), asynq.NewTask("naive", fmt.Appendf(nil, "%d", i)), asynq.Queue(in.namespace+"-orders-"+fmt.Sprint(i%4)))
			must(b, err)
		}
		b.ResetTimer()
		for range 2 {
			srv := asynq.NewServerFromRedisClient(p.queue, asynq.Config{
				Concurrency: 256, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel,
				Queues: map[string]int{in.namespace + "-orders-0": 1, in.namespace + "-orders-1": 1, in.namespace + "-orders-2": 1, in.namespace + "-orders-3": 1},
			})
			must(b, srv.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
				return pgx.BeginFunc(ctx, in.pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(ctx, `INSERT INTO naive_orders VALUES ($1, 'shoe', $1) ON CONFLICT DO NOTHING`, string(task.Payload())); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, `UPDATE naive_stock SET stock = stock - 1 WHERE item = 'shoe' AND stock > 0`)
					return err
				})
			})))
			b.Cleanup(srv.Shutdown)
		}
		in.drained(`SELECT count(*) FROM naive_orders`, b.N)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
	})
}

// installDurable returns an installation whose Postgres writes to disk.
func installDurable(b *testing.B) *installation {
	pg := testenv.StartPostgres(b, "fsync=on", "synchronous_commit=on")
	in := installIn(b, testenv.StartRedis(b).URL(), pg.URL())
	return in
}

// placeMany places orders of count buyers.
func placeMany(b testing.TB, p *process, sale string, count int) { placeOf(b, p, sale, "user-", count) }

func placeOf(b testing.TB, p *process, sale, buyers string, count int) {
	var next atomic.Int64
	done := make(chan error, 64)
	for range cap(done) {
		go func() {
			for {
				i := next.Add(1)
				if i > int64(count) {
					done <- nil
					return
				}
				out, err := attempt(b.Context(), p, orders.Request{Sale: sale, Item: "shoe", Quantity: 1, User: fmt.Sprint(buyers, i)})
				if err == nil && !out.Admitted() {
					err = fmt.Errorf("refused: %s", out.Reason)
				}
				if err != nil {
					done <- err
					return
				}
			}
		}()
	}
	for range cap(done) {
		must(b, <-done)
	}
}

// tasks returns the tasks that wait in the queues.
func (in *installation) tasks() (list []*asynq.TaskInfo) {
	in.t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(in.rdb)
	for queue := range 4 { // there is one, or four on a cluster
		tasks, err := inspector.ListPendingTasks(fmt.Sprintf("%s-accepted-%d", in.namespace, queue), asynq.PageSize(100_000))
		if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			in.t.Fatal(err)
		}
		list = append(list, tasks...)
	}
	return list
}

// queued counts the orders of tasks that wait.
func (in *installation) queued() (count int) {
	in.t.Helper()
	for _, task := range in.tasks() {
		var list []orders.Reservation
		must(in.t, json.Unmarshal(task.Payload, &list))
		count += len(list)
	}
	return count
}

func (in *installation) drained(count string, want int) {
	in.t.Helper()
	for ticker := time.NewTicker(10 * time.Millisecond); ; <-ticker.C {
		var got int
		must(in.t, in.pool.QueryRow(in.t.Context(), count).Scan(&got))
		if got >= want {
			ticker.Stop()
			return
		}
	}
}

// BenchmarkReserve decides orders of one item in Redis, for 256 callers at once.
func BenchmarkReserve(b *testing.B) {
	in := installIn(b, testenv.StartRedis(b, "--appendonly", "no").URL(), testenv.Postgres(b))
	p := in.start(func(o *shop.Options) { o.MaxRemembered = 10_000_000 })
	sale := in.sale(p, func(s *orders.Sale) {
		s.Items[0].Stock, s.Items[0].InFlightMax = orders.MaxStock, orders.MaxInFlight
	})
	var next atomic.Int64
	b.SetParallelism(128)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint(next.Add(1))})
			if err == nil {
				_, err = a.Reserve(b.Context())
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
}

// TestAllocationsOfAnOrder: it runs alone, for it counts what the whole process allocates while 64 callers order. Raise the limit only for
// what is worth it: a sixth of the CPU time of an API is memory.
func TestAllocationsOfAnOrder(t *testing.T) {
	const callers, each, most = 64, 50, 24
	in := installIn(t, testenv.StartRedis(t, "--appendonly", "no").URL(), testenv.Postgres(t))
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = orders.MaxStock })
	place := func(round string) {
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for n := range each {
					a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: fmt.Sprint(round, i, "-", n)})
					if err == nil {
						_, err = a.Reserve(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	place("first") // connections, goroutines and stacks
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	place("second")
	runtime.ReadMemStats(&after)
	if of := float64(after.Mallocs-before.Mallocs) / (callers * each); of > most {
		t.Errorf("%.1f allocations an order, at most %d are expected", of, most)
	} else {
		t.Logf("%.1f allocations an order", of)
	}
}

// BenchmarkSoldOut refuses orders from memory.
func BenchmarkSoldOut(b *testing.B) {
	in := install(b)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 0 })
	in.order(p, sale.ID, "first", "", 1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := attempt(b.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "user"}); err != nil {
				b.Error(err)
			}
		}
	})
}
