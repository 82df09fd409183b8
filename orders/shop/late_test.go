package shop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// TestAProcessThatStoodStillLosesNoUnitToAnybody resumes the process after the sale was rebuilt without the orders that it
// remembers.
func TestAProcessThatStoodStillLosesNoUnitToAnybody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stock, confirmed, late int // of its five orders
	}{{20, 5, 0}, {8, 3, 2}, {5, 0, 5}} {
		t.Run(fmt.Sprint("stock ", c.stock), func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			in := installOn(t, server.URL())
			stopped, awake := in.start(), in.start()
			sale := in.sale(awake, func(s *orders.Sale) { s.Items[0].Stock = c.stock })
			early := in.accept(stopped, sale.ID, "early", 5)
			in.loseTasks(5)
			thaw := in.freeze(stopped)
			must(t, in.rdb.FlushAll(t.Context()).Err())
			in.work(awake)
			between := in.accept(awake, sale.ID, "between", 5)
			if confirmed, late := in.outcomes(awake, between); confirmed != 5 || late != 0 {
				t.Errorf("%d confirmed and %d late of those who bought from the rebuilt sale", confirmed, late)
			}
			thaw()
			if confirmed, late := in.outcomes(awake, early); confirmed != c.confirmed || late != c.late {
				t.Errorf("%d confirmed and %d late, want %d and %d", confirmed, late, c.confirmed, c.late)
			}
			for i, id := range early {
				o, err := stopped.Order(t.Context(), id, all)
				must(t, err)
				eventually(t, "its buyer hears of it", func() bool {
					out := in.buy(stopped, sale.ID, "early-"+strconv.Itoa(i))
					return out.Replayed && out.Order.ID == id || o.Status == orders.StatusRejected && out.Reason == orders.ReasonSoldOut
				})
			}
			rest := in.sellOut(stopped, sale.ID, "late")
			in.outcomes(stopped, rest)
			if sold := in.count(`SELECT count(*) FROM order_units`); sold != c.stock {
				t.Errorf("%d units sold of %d", sold, c.stock)
			}
			in.balanced(awake, sale.ID)
		})
	}
}

// TestABatchOfBeforeIsNotCommittedAfterwards delays a worker's commit until the sale was rebuilt and the order's unit was sold
// to another buyer.
func TestABatchOfBeforeIsNotCommittedAfterwards(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	stopped, worker, other := in.start(), in.start(), in.start()
	sale := in.sale(other, func(s *orders.Sale) { s.Items[0].Stock = 2 })
	reached, goOn := holds(&worker.store.before, "commit")
	t.Cleanup(goOn)
	in.work(worker)
	early := in.accept(stopped, sale.ID, "early", 1)
	arrives(t, "the batch is about to be committed", reached)
	in.freeze(stopped) // permanently: only the batch has the order now
	must(t, in.rdb.FlushAll(t.Context()).Err())
	next := in.buy(other, sale.ID, "next")
	in.work(other)
	if o := in.settled(other, next.Order.ID); o.Status != orders.StatusConfirmed {
		t.Errorf("%+v", o)
	}
	goOn()
	if confirmed, _ := in.outcomes(other, early); confirmed != 1 {
		t.Error("there was a unit left for the late order")
	}
	in.balanced(other, sale.ID)
	if out := in.buy(other, sale.ID, "one more"); out.Reason != orders.ReasonSoldOut {
		t.Errorf("%+v, want sold_out", out)
	}
}

// TestAnAnswerOfAnEarlierEpochPromisesNothing delays a reply from Redis until the process has handed over.
func TestAnAnswerOfAnEarlierEpochPromisesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start(func(o *shop.Options) { o.Timeout = 20 * time.Second })
	p.follows()
	other := in.start()
	sale := in.sale(other, func(s *orders.Sale) { s.Items[0].Stock = 3 })
	in.accept(other, sale.ID, "first", 1) // Redis has the script from here on, so its first reply is the one that counts
	in.loseTasks(1)
	a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u"})
	must(t, err)
	answered, deliver := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(deliver) })
	t.Cleanup(goOn)
	var first atomic.Bool
	p.rdb.AddHook(around{word: in.namespace + ":{" + sale.ID + ":shoe}:1:pending", after: func() {
		if first.CompareAndSwap(false, true) {
			close(answered)
			<-deliver
		}
	}})
	type result struct {
		out orders.Outcome
		err error
	}
	done := make(chan result, 1)
	go func() {
		for {
			out, err := a.Reserve(context.WithoutCancel(t.Context()))
			if first.Load() || !errors.Is(err, orders.ErrUnavailable) { // otherwise a slow machine delayed a heartbeat
				done <- result{out, err}
				return
			}
		}
	}()
	arrives(t, "Redis has answered", answered)
	if n := in.rdb.HLen(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending").Val(); n != 3 {
		t.Fatalf("Redis has %d reservations, want the sentinel, that of the order, and the answer's", n)
	}
	must(t, in.rdb.FlushAll(t.Context()).Err())
	in.opened(other, sale.ID, 2)
	goOn()
	if r := <-done; !errors.Is(r.err, orders.ErrRecovering) {
		t.Errorf("%+v, want ErrRecovering", r)
	}
	in.work(other)
	if n := len(in.sellOut(other, sale.ID, "next")); n != 2 {
		t.Errorf("%d units sold, want all 3 but the one of the first order", n)
	}
}

// TestARequestOfAnEarlierEpochReservesNothing: the request was checked before the sale was rebuilt, and is decided afterwards.
func TestARequestOfAnEarlierEpochReservesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installOn(t, server.URL())
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 1 })
	a, err := p.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u"})
	must(t, err)
	server.Kill()
	server.Restart() // it has the keys of the first epoch until they are dropped
	in.opened(p, sale.ID, 2)
	rebuilt := in.epoch(sale.ID)
	if out, err := a.Reserve(t.Context()); !errors.Is(err, orders.ErrRecovering) {
		t.Errorf("%+v, %v; want ErrRecovering", out, err)
	}
	if n := len(in.accept(p, sale.ID, "next", 1)); n != 1 {
		t.Errorf("%d orders on the unit that was not reserved", n)
	}
	if epoch := in.epoch(sale.ID); epoch != rebuilt {
		t.Errorf("epoch %d after %d: the request had the sale rebuilt once more", epoch, rebuilt)
	}
}

// TestAnOrderOfTwoEpochsDoesNotKeepTheSaleClosed: the order was reserved again in the second epoch, whose leader died before it
// dropped the keys of the first.
func TestAnOrderOfTwoEpochsDoesNotKeepTheSaleClosed(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "--appendfsync", "always") // only its file has the order when it is killed
	in := installOn(t, server.URL())
	gone, p := in.start(), in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 5 })
	id := in.accept(gone, sale.ID, "early", 1)[0]
	in.loseTasks(1)
	gone.stop()
	pending := func(epoch int) string {
		return in.namespace + ":{" + sale.ID + ":shoe}:" + strconv.Itoa(epoch) + ":pending"
	}
	record, err := in.rdb.HGet(t.Context(), pending(1), id.String()).Result()
	must(t, err)
	// The order was not committed during the first recovery, because another order had its unit until then.
	owner, err := orders.ParseReservation([]byte(record))
	must(t, err)
	owner.ID[15]++
	owner.BuyerHash = "owner"
	_, err = in.store().Commit(t.Context(), []orders.Reservation{owner})
	must(t, err)
	lose := func(epoch int64) {
		server.Kill()
		server.Restart()
		in.opened(p, sale.ID, epoch)
	}
	lose(2)
	if o := in.settled(p, id); o.Status != orders.StatusConfirmed { // reserved again before the sale opened
		t.Errorf("%+v", o)
	}
	// As if the leader had died before it committed the order, and before it dropped the first epoch.
	again, err := orders.ParseReservation([]byte(record))
	must(t, err)
	again.ID = p.NewID(again.ID.Time(), again.ID.Item())
	again.BuyerHash = "again"
	first, err := json.Marshal(again)
	must(t, err)
	again.Epoch, again.Units = 2, []int{3}
	second, err := json.Marshal(again)
	must(t, err)
	must(t, in.rdb.HSet(t.Context(), pending(1), again.ID.String(), first).Err())
	must(t, in.rdb.HSet(t.Context(), pending(2), again.ID.String(), second).Err())
	lose(3)
	in.work(p)
	if o := in.settled(p, again.ID); o.Status != orders.StatusConfirmed || !slices.Equal(o.Units, []int{3}) {
		t.Errorf("%+v, want the unit of the latest epoch", o)
	}
	in.balanced(p, sale.ID)
}
