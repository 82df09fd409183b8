package shop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/postgres"
)

func TestAPoisonousOrderIsADeadLetterAndFailsNobodyElse(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 100 })
	_, err := in.pool.Exec(t.Context(), `ALTER TABLE orders ADD CHECK (buyer <> 'user-7')`)
	must(t, err)
	var ids []orders.ID
	for i := range 20 {
		ids = append(ids, in.order(p, sale.ID, fmt.Sprint("user-", i), "", 1).Order.ID)
	}
	in.work(p) // finds all of them in one batch
	for i, id := range ids {
		if i == 7 {
			continue
		}
		if o := in.settled(p, id); o.Status != orders.StatusConfirmed {
			t.Errorf("order %d: %s", i, o.Status)
		}
	}
	var reason string
	eventually(t, "the dead letter is there", func() bool {
		return in.pool.QueryRow(t.Context(), `SELECT reason FROM dead_letters WHERE order_id = $1`, ids[7].String()).Scan(&reason) == nil
	})
	eventually(t, "only the dead letter is left", func() bool { return in.verified(p, sale.ID) == 1 })
	if o, err := p.Order(t.Context(), ids[7], orders.Viewer{All: true}); err != nil || o.Status != orders.StatusAccepted {
		t.Errorf("a dead letter reads as %+v, %v; it waits for an operator", o, err)
	}
	again := in.order(p, sale.ID, "user-7", "", 1)
	if !again.Replayed || again.Order.ID != ids[7] {
		t.Errorf("its buyer asks again: %+v", again)
	}
}

func (in *installation) store() storage.Store { return postgres.New(in.pool) }

func TestATaskDeliveredTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 3 })
	placed := in.order(p, sale.ID, "u", "", 1)
	o := in.settled(p, placed.Order.ID)
	// Cancelled meanwhile: its unit is returned, and the late delivery must not take it again.
	_, err := in.pool.Exec(t.Context(), `UPDATE orders SET status = 'cancelled', key_hash = NULL WHERE order_id = $1`, o.ID.String())
	must(t, err)
	_, err = in.pool.Exec(t.Context(), `DELETE FROM order_units WHERE order_id = $1`, o.ID.String())
	must(t, err)
	payload, err := json.Marshal([]orders.Reservation{{
		ID: o.ID, Epoch: 1, Sale: sale.ID, Item: "shoe", Buyer: "u", BuyerHash: "abcdefghijklmnopqrstuv", Quantity: 1, Units: o.Units, AcceptedMS: o.AcceptedAt.UnixMilli(),
	}})
	must(t, err)
	client := asynq.NewClientFromRedisClient(p.queue)
	_, err = client.EnqueueContext(t.Context(), asynq.NewTask("orders:commit", payload), asynq.TaskID(o.ID.String()), asynq.Queue(in.namespace+"-accepted-0"))
	must(t, err)
	inspector := asynq.NewInspectorFromRedisClient(p.queue)
	eventually(t, "the second delivery is done", func() bool {
		info, err := inspector.GetQueueInfo(in.namespace + "-accepted-0")
		return err == nil && info.Size == 0
	})
	if again, err := p.Order(t.Context(), o.ID, orders.Viewer{All: true}); err != nil || again.Status != orders.StatusCancelled {
		t.Errorf("order %+v %v", again, err)
	}
	var units int
	must(t, in.pool.QueryRow(t.Context(), `SELECT count(*) FROM order_units WHERE sale = $1`, sale.ID).Scan(&units))
	if units != 0 {
		t.Errorf("%d units taken by the second delivery", units)
	}
}

func TestTheSweeperCommitsWhatTheQueueLost(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	placed := in.order(p, sale.ID, "u", "", 1)
	eventually(t, "the task is queued", func() bool { return in.deleteTasks() > 0 })
	p.stop() // and the process that remembers the order is gone
	q := in.start()
	in.work(q)
	if o := in.settled(q, placed.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("order %+v", o)
	}
	eventually(t, "all is settled", func() bool { return in.verified(q, sale.ID) == 0 })
}

// A server that refuses to hand over the outbox of an item keeps the sweeper from no item of another server.
func TestTheSweeperPassesWhatItCannotClaim(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	broken, sale := in.sale(p), in.sale(p)
	in.order(p, broken.ID, "u", "", 1)
	placed := in.order(p, sale.ID, "u", "", 1)
	eventually(t, "the tasks are queued", func() bool { return in.deleteTasks() > 0 })
	p.stop()
	eventually(t, "no task is left", func() bool { return in.deleteTasks() == 0 })
	pending := in.namespace + ":{" + broken.ID + ":shoe}:1:pending"
	must(t, in.rdb.Rename(t.Context(), pending, pending+"-away").Err())
	must(t, in.rdb.Set(t.Context(), pending, "of another kind", 0).Err())
	q := in.start()
	in.work(q)
	if o := in.settled(q, placed.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("order %+v", o)
	}
	must(t, in.rdb.Rename(t.Context(), pending+"-away", pending).Err())
	for _, s := range []orders.Sale{broken, sale} {
		eventually(t, "all is settled", func() bool { return in.verified(q, s.ID) == 0 })
	}
}

// An outbox entry whose reservation is lost keeps the sweeper from none of those behind it.
func TestTheSweeperPassesALostReservation(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	lost, placed := in.order(p, sale.ID, "u", "", 1), in.order(p, sale.ID, "v", "", 1)
	eventually(t, "the tasks are queued", func() bool { return in.deleteTasks() > 0 })
	p.stop()
	eventually(t, "no task is left", func() bool { return in.deleteTasks() == 0 })
	must(t, in.rdb.HDel(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending", lost.Order.ID.String()).Err())
	q := in.start()
	in.work(q)
	if o := in.settled(q, placed.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("order %+v", o)
	}
}

// deleteTasks deletes all of this installation's Asynq tasks.
func (in *installation) deleteTasks() (deleted int64) {
	in.t.Helper()
	keys, err := in.rdb.Keys(in.t.Context(), "asynq:{"+in.namespace+"-*").Result()
	must(in.t, err)
	for _, key := range keys {
		n, err := in.rdb.Del(in.t.Context(), key).Result()
		must(in.t, err)
		deleted += n
	}
	return deleted
}

func TestWaitersHearOfACommitAtOnce(t *testing.T) {
	t.Parallel()
	in := install(t)
	api, worker := in.start(), in.start()
	sale := in.sale(api, func(s *orders.Sale) { s.Items[0].Stock = 50 })
	var wg sync.WaitGroup
	for i := range 50 {
		id := in.order(api, sale.ID, fmt.Sprint("user-", i), "", 1).Order.ID
		wg.Go(func() {
			began := time.Now()
			o, err := api.Wait(t.Context(), id, orders.Viewer{User: fmt.Sprint("user-", i)}, orders.StatusAccepted, time.Minute)
			if err != nil || o.Status != orders.StatusConfirmed {
				t.Errorf("%+v, %v after %v", o, err, time.Since(began))
			}
		})
	}
	in.work(worker)
	wg.Wait()

	placed := in.order(api, in.sale(api).ID, "u", "", 1) // confirmed, and then unchanged
	in.settled(api, placed.Order.ID)
	done := make(chan orders.Order)
	go func() {
		o, err := api.Wait(context.WithoutCancel(t.Context()), placed.Order.ID, orders.Viewer{All: true}, orders.StatusConfirmed, time.Hour)
		if err != nil {
			t.Error(err)
		}
		done <- o
	}()
	api.WakeWaiters()
	if o := <-done; o.Status != orders.StatusConfirmed {
		t.Errorf("when draining: %+v", o)
	}
}

func TestAnOrderIsItsBuyersAlone(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, other := in.start(), in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.RequiresUser = false })
	mine := in.order(p, sale.ID, "me", "", 1).Order.ID
	nobodys := in.order(p, sale.ID, "", "a key that nobody guesses", 1).Order.ID
	for _, at := range []*process{p, other} {
		for _, c := range []struct {
			id     orders.ID
			viewer orders.Viewer
			ok     bool
		}{
			{mine, orders.Viewer{User: "me"}, true},
			{mine, orders.Viewer{User: "you"}, false},
			{mine, orders.Viewer{}, false},
			{mine, orders.Viewer{All: true}, true},
			{nobodys, orders.Viewer{}, true},
			{nobodys, orders.Viewer{User: "you"}, true},
		} {
			o, err := at.Order(t.Context(), c.id, c.viewer)
			if c.ok && (err != nil || o.ID != c.id) || !c.ok && !errors.Is(err, orders.ErrUnknownOrder) {
				t.Errorf("%+v reads %s: %+v, %v", c.viewer, c.id, o, err)
			}
		}
	}
	list, err := other.Orders(t.Context(), orders.Query{Sale: sale.ID, Viewer: orders.Viewer{User: "me"}, Limit: 10})
	must(t, err)
	if len(list) != 1 || list[0].ID != mine {
		t.Errorf("my orders: %+v", list)
	}
	all, err := other.Orders(t.Context(), orders.Query{Sale: sale.ID, Viewer: orders.Viewer{All: true}, Limit: 10})
	must(t, err)
	if len(all) != 2 {
		t.Errorf("all orders: %+v", all)
	}
	if _, err := other.Orders(t.Context(), orders.Query{Sale: sale.ID, Limit: 10}); !errors.Is(err, orders.ErrUserRequired) {
		t.Errorf("nobody's orders: %v", err)
	}
}

func TestAnOrderOfASaleNotHeardOfYetIsNotUnknown(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	const never = 1<<24 - 1 // number of an item
	if _, err := p.Order(t.Context(), p.NewID(time.Now(), never), orders.Viewer{All: true}); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("of this moment: %v, want ErrUnavailable", err)
	}
	if _, err := p.Order(t.Context(), p.NewID(time.Now().Add(-time.Hour), never), orders.Viewer{All: true}); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("of an hour ago: %v, want ErrUnknownOrder", err)
	}
}

func TestAHangUpTearsNoReservation(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u"})
	must(t, err)
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	out, err := a.Reserve(ctx)
	if err != nil || !out.Admitted() {
		t.Fatalf("%+v, %v", out, err)
	}
	if o, err := p.Order(t.Context(), out.Order.ID, orders.Viewer{User: "u"}); err != nil || o.Status != orders.StatusAccepted {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestManySalesAtOnce defines more sales than the pool has connections: each uses one connection for the lead and needs
// another.
func TestManySalesAtOnce(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	var wg sync.WaitGroup
	for i := range 2 * int(in.pool.Config().MaxConns) {
		wg.Go(func() {
			if _, _, err := p.PutSale(t.Context(), orders.Definition{
				ID: fmt.Sprint("many-", i), StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Hold: time.Minute,
				Items: []orders.ItemDefinition{{ID: "shoe", Stock: 1, InFlightMax: 1}},
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestNoStatusGoesBackWhileTheDatabaseIsAway: between a commit and its settlement, the order is confirmed in the database and
// pending in Redis.
func TestNoStatusGoesBackWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, other, worker := in.start(), in.start(), in.start()
	sale := in.sale(p)
	id, accepted := in.order(p, sale.ID, "u", "", 1).Order.ID, time.Now()
	committed, note := holds(&worker.store.after, "commit")
	in.work(worker)
	t.Cleanup(note) // before the worker is stopped
	arrives(t, "the commit", committed)
	for name, reader := range map[string]*process{"who accepted it": p, "another one": other} {
		eventually(t, "it was accepted some moments ago", func() bool { return time.Since(accepted) > 200*time.Millisecond })
		if o, err := reader.Order(t.Context(), id, orders.Viewer{All: true}); err != nil || o.Status != orders.StatusConfirmed {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		reader.store.fails("committed")
		if o, err := reader.Order(t.Context(), id, orders.Viewer{All: true}); !errors.Is(err, orders.ErrUnavailable) {
			t.Errorf("%s, once it was seen confirmed: %+v, %v", name, o, err)
		}
		if out, err := attempt(t.Context(), reader, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u"}); !errors.Is(err, orders.ErrUnavailable) {
			t.Errorf("%s, to a repeat: %+v, %v", name, out, err)
		}
		reader.store.heals()
	}
}
