package shop_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// TestBacklog: an order waits, is in work while the database delays its commit, and is then gone from the backlog.
func TestBacklog(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	backlog := func() (waiting, inWork int) {
		t.Helper()
		b, err := p.Backlog(t.Context())
		must(t, err)
		inWork, err = p.InProgress(t.Context())
		must(t, err)
		return b.Orders, inWork
	}
	if waiting, inWork := backlog(); waiting != 0 || inWork != 0 {
		t.Errorf("%d wait, %d in work before the first order", waiting, inWork)
	}
	first := in.order(p, sale.ID, "ada", "", 1).Order.ID
	second := in.order(p, sale.ID, "bob", "", 1).Order.ID
	if waiting, inWork := backlog(); waiting != 2 || inWork != 0 {
		t.Errorf("%d wait, %d in work without a worker, want 2, 0", waiting, inWork)
	}

	hold, err := in.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = hold.Rollback(context.Background()) }() // in case the test fails
	_, err = hold.Exec(t.Context(), `LOCK TABLE orders IN SHARE MODE`)
	must(t, err)
	// A sweeper's claim does not change the age of an order.
	before, err := p.Backlog(t.Context())
	must(t, err)
	outbox, err := in.rdb.Keys(t.Context(), in.namespace+":*:outbox").Result()
	must(t, err)
	for _, id := range []orders.ID{first, second} {
		must(t, in.rdb.ZAdd(t.Context(), outbox[0], redis.Z{Score: float64(time.Now().Add(time.Hour).UnixMilli()), Member: id.String()}).Err())
	}
	after, err := p.Backlog(t.Context())
	must(t, err)
	if after.Orders != 2 || after.Oldest <= before.Oldest {
		t.Errorf("%+v once a sweeper has taken them up, %+v before", after, before)
	}
	stop := in.work(p)
	defer stop()
	eventually(t, "both are in work", func() bool { waiting, inWork := backlog(); return waiting == 2 && inWork > 0 && in.queued() == 0 })
	must(t, hold.Rollback(t.Context()))
	in.settled(p, first)
	in.settled(p, second)
	eventually(t, "none is left", func() bool { waiting, inWork := backlog(); return waiting == 0 && inWork == 0 })
	eventually(t, "both commits were reported, once", func() bool { return p.Committed() >= 2 })
	if n := p.Committed(); n != 2 {
		t.Errorf("%d commits reported", n)
	}
}

// TestACommitCountsOnce: a task that is delivered twice, for example after a worker died, confirms nothing a second time.
func TestACommitCountsOnce(t *testing.T) {
	t.Parallel()
	in := install(t)
	var confirmed atomic.Int32
	p := in.start(func(o *shop.Options) { o.Measures.Confirmed = func(time.Duration) { confirmed.Add(1) } })
	sale := in.sale(p)
	id := in.order(p, sale.ID, "ada", "", 1).Order.ID
	record, err := in.rdb.HGet(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending", id.String()).Result()
	must(t, err)
	defer in.work(p)()
	in.settled(p, id)
	queue := in.namespace + "-accepted-0"
	_, err = asynq.NewClientFromRedisClient(p.queue).EnqueueContext(t.Context(), asynq.NewTask("orders:commit", []byte("["+record+"]")), asynq.Queue(queue))
	must(t, err)
	inspector := asynq.NewInspectorFromRedisClient(p.queue)
	eventually(t, "the second delivery is done", func() bool {
		info, err := inspector.GetQueueInfo(queue)
		return err == nil && info.Size == 0
	})
	in.settled(p, in.order(p, sale.ID, "bob", "", 1).Order.ID) // its notification arrives after those of the second delivery
	eventually(t, "both commits were reported", func() bool { return p.Committed() >= 2 })
	if reported, measured := p.Committed(), confirmed.Load(); reported != 2 || measured != 2 {
		t.Errorf("%d commits reported, %d measured, of two orders", reported, measured)
	}
}
