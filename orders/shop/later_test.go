package shop_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// laterFound counts what a process leaves to a later version.
type laterFound struct{ tasks, records atomic.Int64 }

func (l *laterFound) count(o *shop.Options) {
	o.Measures.NewerVersion = func(kind string, n int) {
		if kind == "task" {
			l.tasks.Add(int64(n))
		} else {
			l.records.Add(int64(n))
		}
	}
}

// pendingKey has the records of the sale's item in an epoch.
func (in *installation) pendingKey(sale string) string {
	return in.namespace + ":{" + sale + ":shoe}:1:pending"
}

// later makes the record of an order one of a later version, and returns a function that undoes it.
func (in *installation) later(sale string, id orders.ID) (undo func()) {
	in.t.Helper()
	record, err := in.rdb.HGet(in.t.Context(), in.pendingKey(sale), id.String()).Result()
	must(in.t, err)
	set := func(record string) {
		must(in.t, in.rdb.HSet(in.t.Context(), in.pendingKey(sale), id.String(), record).Err())
	}
	set(strings.Replace(record, "{", `{"v":2,`, 1))
	return func() { set(record) }
}

// TestATaskOfALaterVersionWaits, whatever it contains: it is neither archived nor taken for orders.
func TestATaskOfALaterVersionWaits(t *testing.T) {
	t.Parallel()
	in := install(t)
	var found laterFound
	p := in.start(found.count)
	in.work(p)
	queue, client := in.namespace+"-accepted-0", asynq.NewClientFromRedisClient(p.queue)
	for _, payload := range []string{`{"orders":[]}`, "\x08\x01"} {
		_, err := client.EnqueueContext(t.Context(), asynq.NewTask("orders:commit:2", []byte(payload)), asynq.Queue(queue))
		must(t, err)
	}
	inspector := asynq.NewInspectorFromRedisClient(p.queue)
	eventually(t, "both are retried", func() bool {
		info, err := inspector.GetQueueInfo(queue)
		return err == nil && info.Retry == 2 && info.Size == 2
	})
	if n := found.tasks.Load(); n != 2 {
		t.Errorf("%d tasks of a later version were counted, want 2", n)
	}
}

// TestARecordOfALaterVersionWaitsInTheOutbox: the worker commits the other orders of the task.
func TestARecordOfALaterVersionWaitsInTheOutbox(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	early, id := in.order(p, sale.ID, "early", "", 1).Order.ID, in.order(p, sale.ID, "late", "", 1).Order.ID
	eventually(t, "both are queued", func() bool { return in.queued() == 2 })
	undo := in.later(sale.ID, id)
	records, err := in.rdb.HMGet(t.Context(), in.pendingKey(sale.ID), early.String(), id.String()).Result()
	must(t, err)
	in.deleteTasks()
	p.stop() // it remembers the order as its own version wrote it
	task := asynq.NewTask("orders:commit", []byte("["+records[0].(string)+","+records[1].(string)+"]"))
	var found laterFound
	q := in.start(found.count)
	_, err = asynq.NewClientFromRedisClient(q.queue).EnqueueContext(t.Context(), task, asynq.Queue(in.namespace+"-accepted-0"))
	must(t, err)
	in.work(q)
	if o := in.settled(q, early); o.Status != orders.StatusConfirmed {
		t.Errorf("the other order: %+v", o)
	}
	eventually(t, "task and outbox were read", func() bool { return found.records.Load() >= 2 })
	if n := in.count(`SELECT count(*) FROM orders WHERE order_id = $1`, id.String()); n != 0 {
		t.Error("the order of a later version was committed")
	}
	undo()
	if o := in.settled(q, id); o.Status != orders.StatusConfirmed {
		t.Errorf("after a worker of its version came: %+v", o)
	}
	in.verified(q, sale.ID)
}

// TestARecoveryWaitsForALeaderThatReadsEveryRecord: a leader deletes the keys of the epoch before.
func TestARecoveryWaitsForALeaderThatReadsEveryRecord(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	id := in.order(p, sale.ID, "u", "", 1).Order.ID
	eventually(t, "it is queued", func() bool { return in.queued() == 1 })
	undo := in.later(sale.ID, id)
	in.deleteTasks()
	p.stop()
	var found laterFound
	q := in.start(found.count)
	must(t, in.rdb.Del(t.Context(), strings.TrimSuffix(in.pendingKey(sale.ID), "pending")+"item").Err())
	in.work(q)
	eventually(t, "a leader found the record", func() bool {
		_, _ = attempt(t.Context(), q, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "v"})
		return found.records.Load() > 0
	})
	if kept, err := in.rdb.HExists(t.Context(), in.pendingKey(sale.ID), id.String()).Result(); err != nil || !kept {
		t.Fatalf("the record is gone: %v", err)
	}
	undo()
	if o := in.settled(q, id); o.Status != orders.StatusConfirmed {
		t.Errorf("after a leader of its version came: %+v", o)
	}
	in.buy(q, sale.ID, "w") // the sale is open
	in.verified(q, sale.ID)
}
