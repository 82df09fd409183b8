package orders_test

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
	"github.com/tidegate/tidegate/orders/postgres"
)

func TestAPoisonousOrderIsADeadLetterAndFailsNobodyElse(t *testing.T) {
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

func TestAUnitThatIsTakenIsReplaced(t *testing.T) {
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock, s.Items[0].QuotaPerBuyer = 6, 3 })
	first := in.order(p, sale.ID, "first", "k", 3)   // units 1, 2, 3
	second := in.order(p, sale.ID, "second", "k", 2) // units 4, 5
	// Redis went back in time and nobody noticed: in truth somebody owns units 2 and 4.
	owner := orders.Reservation{
		ID: first.Order.ID, Epoch: 1, Sale: sale.ID, Item: "shoe", Buyer: "owner", BuyerHash: "owner", Quantity: 2,
		Units: []int{2, 4}, AcceptedMS: time.Now().UnixMilli(),
	}
	owner.ID[15]++
	_, err := in.store().Commit(t.Context(), []orders.Reservation{owner})
	must(t, err)
	in.work(p)
	var seated, rejected int
	for _, id := range []orders.ID{first.Order.ID, second.Order.ID} {
		switch o := in.settled(p, id); o.Status {
		case orders.StatusConfirmed:
			seated += len(o.Units)
			for _, u := range o.Units {
				if u == 2 || u == 4 {
					t.Errorf("order %+v has a unit of another order", o)
				}
			}
		case orders.StatusRejected:
			rejected += o.Quantity
			if o.Reason != orders.ReasonRecoveredLate {
				t.Errorf("rejected for %s", o.Reason)
			}
		}
	}
	// 6 units, 2 taken by the owner and those 2 again disputed: 1 fresh unit for 2 claims.
	if seated+rejected != 5 || seated < 2 {
		t.Errorf("%d seated, %d rejected", seated, rejected)
	}
	if o, err := p.Order(t.Context(), owner.ID, orders.Viewer{All: true}); err != nil || len(o.Units) != 2 {
		t.Errorf("the owner lost its units: %+v %v", o, err)
	}
	// What the rejected one held undisputed is on sale again, and nothing is nowhere.
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
	for left := 4 - seated; left > 0; left-- {
		if out := in.order(p, sale.ID, "third", fmt.Sprint("k", left), 1); !out.Admitted() {
			t.Fatalf("%d units should be left: %+v", left, out)
		}
	}
	if out := in.order(p, sale.ID, "fourth", "k", 1); out.Reason != orders.ReasonSoldOut {
		t.Errorf("all 6 are sold: %+v", out)
	}
}

// TestADuplicateGivesBackWhatItHeld commits an order whose identity another order of the database has.
func TestADuplicateGivesBackWhatItHeld(t *testing.T) {
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 3 })
	placed := in.order(p, sale.ID, "u", "", 1)
	var record string
	eventually(t, "the reservation is there", func() bool {
		var err error
		record, err = in.rdb.HGet(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending", placed.Order.ID.String()).Result()
		return err == nil
	})
	first, err := orders.ParseReservation([]byte(record))
	must(t, err)
	first.ID[15]++
	first.Units = []int{2} // Redis forgot that it gave this to the same buyer
	_, err = in.store().Commit(t.Context(), []orders.Reservation{first})
	must(t, err)
	in.work(p)
	if o := in.settled(p, placed.Order.ID); o.Status != orders.StatusRejected || o.Reason != orders.ReasonDuplicate {
		t.Fatalf("order %+v", o)
	}
	eventually(t, "unit 1 and the buyer's mark came back", func() bool {
		units, err := in.rdb.SMembers(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:returned").Result()
		must(t, err)
		marks, err := in.rdb.Exists(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:buyers", in.namespace+":{"+sale.ID+":shoe}:1:keys").Result()
		must(t, err)
		return len(units) == 1 && units[0] == "1" && marks == 0
	})
}

// TestARejectionThatWasCutOffGivesBackLater has the worker die between the row and Redis.
func TestARejectionThatWasCutOffGivesBackLater(t *testing.T) {
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 1 })
	placed := in.order(p, sale.ID, "u", "", 1)
	record, err := in.rdb.HGet(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending", placed.Order.ID.String()).Result()
	must(t, err)
	r, err := orders.ParseReservation([]byte(record))
	must(t, err)
	r.Reason = orders.ReasonRecoveredLate
	_, err = in.store().Commit(t.Context(), []orders.Reservation{r})
	must(t, err)
	in.work(p)
	eventually(t, "the unit is on sale again", func() bool {
		out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "next"})
		return err == nil && out.Admitted()
	})
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
}

func (in *installation) store() orders.Store { return postgres.New(in.pool) }

func TestATaskDeliveredTwiceChangesNothing(t *testing.T) {
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 3 })
	placed := in.order(p, sale.ID, "u", "", 1)
	o := in.settled(p, placed.Order.ID)
	// Cancelled meanwhile: its unit is gone, and the late delivery must not take it again.
	_, err := in.pool.Exec(t.Context(), `UPDATE orders SET status = 'cancelled', key_hash = NULL WHERE order_id = $1`, o.ID.String())
	must(t, err)
	_, err = in.pool.Exec(t.Context(), `DELETE FROM order_units WHERE order_id = $1`, o.ID.String())
	must(t, err)
	payload, err := json.Marshal(orders.Reservation{
		ID: o.ID, Epoch: 1, Sale: sale.ID, Item: "shoe", Buyer: "u", BuyerHash: "abcdefghijklmnopqrstuv", Quantity: 1, Units: o.Units, AcceptedMS: o.AcceptedAt.UnixMilli(),
	})
	must(t, err)
	client := asynq.NewClientFromRedisClient(p.queue)
	_, err = client.EnqueueContext(t.Context(), asynq.NewTask("order:commit", payload), asynq.TaskID(o.ID.String()), asynq.Queue(in.namespace+"-orders-0"))
	must(t, err)
	inspector := asynq.NewInspectorFromRedisClient(p.queue)
	eventually(t, "the second delivery is done", func() bool {
		info, err := inspector.GetQueueInfo(in.namespace + "-orders-0")
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

// deleteTasks loses everything that Asynq has of this installation.
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

	placed := in.order(api, in.sale(api).ID, "u", "", 1) // confirmed, then nothing changes
	in.settled(api, placed.Order.ID)
	done := make(chan orders.Order)
	go func() {
		o, err := api.Wait(context.WithoutCancel(t.Context()), placed.Order.ID, orders.Viewer{All: true}, orders.StatusConfirmed, time.Hour)
		if err != nil {
			t.Error(err)
		}
		done <- o
	}()
	api.Stop()
	if o := <-done; o.Status != orders.StatusConfirmed {
		t.Errorf("when draining: %+v", o)
	}
}

func TestAnOrderIsItsBuyersAlone(t *testing.T) {
	in := install(t)
	p, other := in.start(), in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.RequiresUser = false })
	mine := in.order(p, sale.ID, "me", "", 1).Order.ID
	nobodys := in.order(p, sale.ID, "", "a secret key", 1).Order.ID
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
	in := install(t)
	p := in.start()
	const never = 1<<24 - 1 // number of an item
	if _, err := p.Order(t.Context(), orders.NewID(time.Now(), never), orders.Viewer{All: true}); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("of this moment: %v, want ErrUnavailable", err)
	}
	if _, err := p.Order(t.Context(), orders.NewID(time.Now().Add(-time.Hour), never), orders.Viewer{All: true}); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("of an hour ago: %v, want ErrUnknownOrder", err)
	}
}

func TestAHangUpTearsNoReservation(t *testing.T) {
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

// TestManySalesAtOnce defines more sales than the pool has connections: each
// leads with one connection and needs another.
func TestManySalesAtOnce(t *testing.T) {
	in := install(t)
	p := in.start()
	var wg sync.WaitGroup
	for i := range 2 * int(in.pool.Config().MaxConns) {
		wg.Go(func() {
			if _, _, err := p.PutSale(t.Context(), orders.Sale{
				ID: fmt.Sprint("many-", i), StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Hold: time.Minute,
				Items: []orders.Item{{ID: "shoe", Stock: 1, QuotaPerBuyer: 1, InFlightMax: 1}},
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestAnOrderThatLostAUnitIsRejectedWhoeverFindsIt has the rejection of an order
// fail after reseat.lua left it with the one unit that was its own.
func TestAnOrderThatLostAUnitIsRejectedWhoeverFindsIt(t *testing.T) {
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock, s.Items[0].QuotaPerBuyer = 2, 2 })
	placed := in.order(p, sale.ID, "u", "key", 2)
	eventually(t, "the task is queued", func() bool { return in.deleteTasks() > 0 })
	p.stop()
	pending := in.namespace + ":{" + sale.ID + ":shoe}:1:pending"
	record, err := in.rdb.HGet(t.Context(), pending, placed.Order.ID.String()).Result()
	must(t, err)
	r, err := orders.ParseReservation([]byte(record))
	must(t, err)
	owner := r
	owner.ID[15]++
	owner.BuyerHash, owner.Quantity, owner.Units = "owner", 1, []int{2}
	_, err = in.store().Commit(t.Context(), []orders.Reservation{owner})
	must(t, err)
	r.Units = []int{1}
	left, err := json.Marshal(r)
	must(t, err)
	must(t, in.rdb.HSet(t.Context(), pending, r.ID.String(), left).Err())

	q := in.start()
	in.work(q)
	if o := in.settled(q, r.ID); o.Status != orders.StatusRejected || o.Reason != orders.ReasonRecoveredLate {
		t.Errorf("an order of 2 with 1 unit: %+v", o)
	}
	eventually(t, "all is settled, and unit 1 on sale again", func() bool {
		status, err := q.Sale(t.Context(), sale.ID)
		must(t, err)
		return in.verified(q, sale.ID) == 0 && status.Free["shoe"] == 1
	})
}
