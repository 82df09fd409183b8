package shop_test

import (
	"testing"

	"github.com/hibiken/asynq"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// TestUnitsComeBackOnce repeats the return in every state of the sale.
func TestUnitsComeBackOnce(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 5 })
	in.work(p)
	ids := in.confirmed(p, sale.ID, 5)
	p.store.fails("returned") // the process dies after the return and before it is recorded
	for _, id := range ids[:2] {
		_, err := p.Cancel(t.Context(), id, all)
		must(t, err)
	}
	if n := in.count(`SELECT count(*) FROM order_returns`); n != 2 {
		t.Fatalf("%d returns left to repeat, want 2", n)
	}
	next := in.order(p, sale.ID, "next", "", 1) // one of the two units is sold again before the repetition
	in.settled(p, next.Order.ID)
	p.store.heals()
	in.balanced(p, sale.ID)
	if free := in.free(p, sale.ID); free != 1 {
		t.Errorf("%d units free, want 1", free)
	}

	// A row left from before a recovery has an epoch that was loaded without the order.
	_, err := in.pool.Exec(t.Context(), `
		INSERT INTO order_returns (order_id, sale, item, epoch, buyer_hash, keyless, quantity, units)
		SELECT order_id, sale, item, 0, buyer_hash, true, quantity, units FROM orders WHERE order_id = $1`, ids[4].String())
	must(t, err)
	in.balanced(p, sale.ID)
	if free := in.free(p, sale.ID); free != 1 {
		t.Errorf("%d units free, want 1", free)
	}
	if out := in.order(p, sale.ID, "user-4", "", 1); !out.Replayed || out.Order.ID != ids[4] {
		t.Errorf("the order of an earlier epoch's return: %+v", out)
	}
}

// TestTheSweeperGivesBackWhatACancellationLeft: Redis is down when the order is cancelled.
func TestTheSweeperGivesBackWhatACancellationLeft(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, q := in.start(), in.start()
	sale := in.sale(p)
	stop := in.work(p)
	ids := in.confirmed(p, sale.ID, 1)
	stop()
	_, err := in.store().Cancel(t.Context(), ids[:1]) // and the process that did it is gone
	must(t, err)
	if free := in.free(p, sale.ID); free != 9 {
		t.Fatalf("%d units free before anybody gave it back", free)
	}
	in.work(q)
	in.balanced(q, sale.ID)
	if free := in.free(p, sale.ID); free != 10 {
		t.Errorf("%d units free, want all 10", free)
	}
}

// TestAWorkerThatHasNotHeardOfTheSaleKeepsItsUnits expires orders of a new sale in a process that does not have the sale yet.
func TestAWorkerThatHasNotHeardOfTheSaleKeepsItsUnits(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, q := in.start(), in.start()
	q.store.fails("sales") // from here on it sees no new sales
	in.processes = []*process{p}
	sale := in.sale(p)
	stop := in.work(p)
	id := in.confirmed(p, sale.ID, 1)[0]
	stop()
	_, err := in.pool.Exec(t.Context(), `UPDATE orders SET pay_before = now()`)
	must(t, err)
	in.work(q)
	eventually(t, "the order has expired", func() bool {
		o, err := p.Order(t.Context(), id, all)
		return err == nil && o.Status == orders.StatusExpired
	})
	q.store.heals()
	in.balanced(q, sale.ID)
	if free := in.free(p, sale.ID); free != 10 {
		t.Errorf("%d units free, want all 10", free)
	}
}

// TestATaskOfACancelledOrderChangesNothing delivers the task again at any time: the units belong to other orders by then.
func TestATaskOfACancelledOrderChangesNothing(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 1 })
	placed := in.order(p, sale.ID, "u", "", 1)
	record, err := in.rdb.HGet(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending", placed.Order.ID.String()).Result()
	must(t, err)
	in.work(p)
	in.settled(p, placed.Order.ID)
	_, err = p.Cancel(t.Context(), placed.Order.ID, all)
	must(t, err)
	next := in.order(p, sale.ID, "next", "", 1)
	in.settled(p, next.Order.ID)
	// The outbox of a Redis that went back in time has it again, and so has the queue.
	key := in.namespace + ":{" + sale.ID + ":shoe}:1:"
	must(t, in.rdb.HSet(t.Context(), key+"pending", placed.Order.ID.String(), record).Err())
	must(t, in.rdb.Do(t.Context(), "ZADD", key+"outbox", "1", placed.Order.ID.String()).Err())
	in.balanced(p, sale.ID)
	for id, want := range map[orders.ID]orders.Status{placed.Order.ID: orders.StatusCancelled, next.Order.ID: orders.StatusConfirmed} {
		if o, err := p.Order(t.Context(), id, all); err != nil || o.Status != want {
			t.Errorf("%+v, %v; want %s", o, err, want)
		}
	}
	if out := in.order(p, sale.ID, "third", "", 1); out.Reason != orders.ReasonSoldOut {
		t.Errorf("%+v; want sold_out", out)
	}
}

// TestATaskOfAnEarlierEpochOfACancelledOrderTakesNoUnit: the rebuilt sale does not contain the order, whose buyer may order
// again.
func TestATaskOfAnEarlierEpochOfACancelledOrderTakesNoUnit(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 3 })
	id := in.accept(p, sale.ID, "u", 1)[0]
	record, err := in.rdb.HGet(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending", id.String()).Result()
	must(t, err)
	in.work(p)
	in.settled(p, id)
	_, err = p.Cancel(t.Context(), id, all)
	must(t, err)
	in.balanced(p, sale.ID)
	must(t, in.rdb.FlushAll(t.Context()).Err())
	in.opened(p, sale.ID, 2)
	queue := in.namespace + "-accepted-0"
	_, err = asynq.NewClientFromRedisClient(p.queue).EnqueueContext(t.Context(), asynq.NewTask("orders:commit", []byte("["+record+"]")), asynq.Queue(queue))
	must(t, err)
	inspector := asynq.NewInspectorFromRedisClient(p.queue)
	eventually(t, "the delivery is done", func() bool {
		info, err := inspector.GetQueueInfo(queue)
		return err == nil && info.Size == 0
	})
	in.balanced(p, sale.ID)
	if free := in.free(p, sale.ID); free != 3 {
		t.Errorf("%d units free of 3", free)
	}
}
