package shop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// TestPaymentAgainstExpiryHasOneWinner expires a thousand orders while they are paid, with two processes and two workers.
func TestPaymentAgainstExpiryHasOneWinner(t *testing.T) {
	t.Parallel()
	const count, payers = 1000, 8
	in := install(t)
	ps := []*process{in.start(), in.start()}
	sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = count })
	stop := in.work(ps[0])
	ids := in.confirmed(ps[0], sale.ID, count)
	stop()
	_, err := in.pool.Exec(t.Context(), `UPDATE orders SET pay_before = now() + random() * interval '1 second'`)
	must(t, err)
	payments := make([]orders.Payment, count)
	var wg sync.WaitGroup
	for payer := range payers {
		wg.Go(func() {
			for i := payer; i < count; i += payers {
				var err error
				if payments[i], err = ps[payer%2].Pay(t.Context(), ids[i], "reference-"+strconv.Itoa(i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, p := range ps {
		in.work(p)
	}
	wg.Wait()
	eventually(t, "every order has ended", func() bool { return in.count(`SELECT count(*) FROM orders WHERE status = 'confirmed'`) == 0 })
	in.balanced(ps[0], sale.ID)
	paid, refunds := 0, 0
	for i, p := range payments {
		o, err := ps[1].Order(t.Context(), ids[i], all)
		must(t, err)
		switch {
		case p.Action == orders.ActionNone && o.Status == orders.StatusPaid:
			paid++
		case p.Action == orders.ActionRefund && o.Status == orders.StatusExpired:
			refunds++
		default:
			t.Errorf("payment %+v of an order that is %s", p, o.Status)
		}
	}
	t.Logf("%d paid, %d to be refunded", paid, refunds)
	if paid == 0 || refunds == 0 {
		t.Errorf("%d paid, %d to be refunded: they did not meet", paid, refunds)
	}
	if n := in.count(`SELECT count(*) FROM payments`); n != paid+refunds {
		t.Errorf("%d captures recorded, %d paid and %d to be refunded", n, paid, refunds)
	}
	if n := in.count(`SELECT count(*) FROM order_events`); n != 2*count+refunds {
		t.Errorf("%d events of %d orders that were confirmed and ended, and of %d refunds", n, count, refunds)
	}
	if free := in.free(ps[0], sale.ID); free != refunds {
		t.Errorf("%d units on sale again of %d orders that expired", free, refunds)
	}
}

// TestCancellationAgainstPaymentAndItself: two processes cancel orders that a third one pays.
func TestCancellationAgainstPaymentAndItself(t *testing.T) {
	t.Parallel()
	const count = 300
	in := install(t)
	ps := []*process{in.start(), in.start(), in.start()}
	sale := in.sale(ps[0], func(s *orders.Sale) { s.Items[0].Stock = count })
	in.work(ps[0])
	ids := in.confirmed(ps[0], sale.ID, count)
	var wg sync.WaitGroup
	cancelled := [2][]bool{make([]bool, count), make([]bool, count)}
	paid := make([]bool, count)
	for c := range cancelled {
		wg.Go(func() {
			for i, id := range ids {
				switch o, err := ps[c].Cancel(t.Context(), id, orders.Viewer{User: fmt.Sprint("user-", i)}); {
				case err == nil && o.Status == orders.StatusCancelled:
					cancelled[c][i] = true
				case !errors.Is(err, orders.ErrOrderFinal) || o.Status != orders.StatusPaid:
					t.Errorf("cancelled: %+v, %v", o, err)
				}
			}
		})
	}
	wg.Go(func() {
		for i, id := range slices.Backward(ids) {
			p, err := ps[2].Pay(t.Context(), id, id.String())
			must(t, err)
			if paid[i] = p.Action == orders.ActionNone; paid[i] != (p.Status == orders.StatusPaid) {
				t.Errorf("payment %+v", p)
			}
		}
	})
	wg.Wait()
	ended := 0
	for i := range ids {
		if cancelled[0][i] != cancelled[1][i] || cancelled[0][i] == paid[i] {
			t.Errorf("order %d: cancelled %v and %v, paid %v", i, cancelled[0][i], cancelled[1][i], paid[i])
		}
		if cancelled[0][i] {
			ended++
		}
	}
	in.balanced(ps[0], sale.ID)
	if free := in.free(ps[0], sale.ID); free != ended {
		t.Errorf("%d units on sale again of %d orders that were cancelled", free, ended)
	}
}

func TestAnEarlyPaymentWaitsForTheCommit(t *testing.T) {
	t.Parallel()
	in := install(t)
	api, worker := in.start(), in.start()
	sale := in.sale(api)
	id := in.order(api, sale.ID, "u", "", 1).Order.ID
	type result struct {
		p   orders.Payment
		err error
	}
	done := make(chan result, 1)
	looked := make(chan struct{})
	api.store.before.Store(new(hook(func(_ context.Context, call string) error {
		if call == "committed" || call == "statuses" {
			select {
			case looked <- struct{}{}:
			default:
			}
		}
		return nil
	})))
	var calls atomic.Int64
	go func() {
		for {
			calls.Add(1)
			p, err := api.Pay(t.Context(), id, "early")
			if !errors.Is(err, orders.ErrUnavailable) || t.Context().Err() != nil { // a busy worker commits later than a payment waits
				done <- result{p, err}
				return
			}
		}
	}()
	for range 2 { // once at first, and again when the order is a second old
		select {
		case <-looked:
		case r := <-done:
			t.Fatalf("%+v before the order was committed", r)
		case <-time.After(500 * time.Millisecond):
		}
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the payment was refused %d times within two looks", n-1)
	}
	in.work(worker)
	if r := <-done; r.err != nil || r.p.Action != orders.ActionNone || r.p.Status != orders.StatusPaid {
		t.Errorf("%+v, want it paid", r)
	}
}

func TestAPaymentOfAnOrderThatNobodyCommitsIsToBeRepeated(t *testing.T) {
	t.Parallel()
	in := install(t)
	api := in.start()
	sale := in.sale(api)
	id := in.order(api, sale.ID, "u", "", 1).Order.ID
	if p, err := api.Pay(t.Context(), id, "early"); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("%+v, %v; want ErrUnavailable", p, err)
	}
	if o, err := api.Cancel(t.Context(), id, all); !errors.Is(err, orders.ErrUnavailable) {
		t.Errorf("cancelled: %+v, %v; want ErrUnavailable", o, err)
	}
	if n := in.count(`SELECT count(*) FROM payments`); n != 0 {
		t.Errorf("%d captures recorded", n)
	}
	for what, id := range map[string]orders.ID{"unknown": api.NewID(time.Now().Add(-time.Hour), 1), "a stranger's": id} {
		if _, err := api.Cancel(t.Context(), id, orders.Viewer{User: "stranger"}); !errors.Is(err, orders.ErrUnknownOrder) {
			t.Errorf("%s: %v, want ErrUnknownOrder", what, err)
		}
	}
}

// TestWhatEndedIsSoldAgain to another buyer, by another process, which had refused before because the item was sold out.
func TestWhatEndedIsSoldAgain(t *testing.T) {
	t.Parallel()
	for _, how := range []orders.Status{orders.StatusCancelled, orders.StatusExpired} {
		t.Run(string(how), func(t *testing.T) {
			in := install(t)
			p, q := in.start(), in.start()
			in.work(p)
			sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 2 })
			ids := in.confirmed(p, sale.ID, 2)
			eventually(t, "the other process says from memory that nothing is left", func() bool {
				a, err := q.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "next"})
				must(t, err)
				out, decided := a.Screen()
				if !decided {
					_, err := a.Reserve(t.Context())
					must(t, err)
				}
				return decided && out.Reason == orders.ReasonSoldOut
			})
			in.end(p, ids[0], how)
			var out orders.Outcome
			eventually(t, "its unit is on sale", func() bool {
				out = in.order(q, sale.ID, "next", "", 1)
				return out.Admitted()
			})
			if again := in.order(q, sale.ID, "one more", "", 1); again.Reason != orders.ReasonSoldOut {
				t.Errorf("one unit came back, and %+v", again)
			}
			first, err := p.Order(t.Context(), ids[0], all)
			must(t, err)
			if o := in.settled(q, out.Order.ID); o.Status != orders.StatusConfirmed || !slices.Equal(o.Units, first.Units) {
				t.Errorf("order %+v has the unit of %+v", o, first)
			}
			if p, err := q.Pay(t.Context(), ids[0], "late"); err != nil || p.Action != orders.ActionRefund || p.Status != how {
				t.Errorf("a late payment: %+v, %v", p, err)
			}
			in.balanced(p, sale.ID)
		})
	}
}

// TestTheSameBuyerAfterTheEnd: the quota is freed; a buyer without a key gets a new order, a key still belongs to the old one.
func TestTheSameBuyerAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, how := range []orders.Status{orders.StatusCancelled, orders.StatusExpired} {
		for _, key := range []string{"", "key"} {
			t.Run(fmt.Sprintf("%s, key %q", how, key), func(t *testing.T) {
				in := install(t)
				ps := []*process{in.start(), in.start()}
				in.work(ps[0])
				sale := in.sale(ps[0])
				ask := func(p *process, key string) (out orders.Outcome) {
					t.Helper()
					eventually(t, "an answer", func() bool { // unavailable until Redis has the end of the order
						var err error
						out, err = attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u", Key: key})
						if err != nil && !errors.Is(err, orders.ErrUnavailable) {
							t.Fatal(err)
						}
						return err == nil
					})
					return out
				}
				id := ask(ps[0], key).Order.ID
				in.settled(ps[0], id)
				if out := ask(ps[1], key); !out.Replayed || out.Order.ID != id {
					t.Fatalf("%+v, want order %s again", out, id)
				}
				in.end(ps[0], id, how)
				if key != "" {
					for i, p := range ps {
						eventually(t, "both say how the order ended", func() bool {
							out := ask(p, key)
							if !out.Replayed || out.Order.ID != id {
								t.Fatalf("process %d: %+v, want order %s again", i, out, id)
							}
							return out.Order.Status == how
						})
					}
				}
				next := ""
				if key != "" {
					next = "another key"
				}
				var out orders.Outcome
				eventually(t, "the buyer may order again", func() bool {
					out = ask(ps[1], next)
					if out.Replayed {
						t.Fatalf("%+v was replayed when it had ended", out)
					}
					return out.Admitted()
				})
				if o := in.settled(ps[1], out.Order.ID); o.Status != orders.StatusConfirmed {
					t.Errorf("%+v", o)
				}
				if out := ask(ps[0], "a third key"); out.Reason != orders.ReasonQuotaPerBuyer {
					t.Errorf("a quota of one was given back once: %+v", out)
				}
				in.balanced(ps[0], sale.ID)
			})
		}
	}
}

// TestCallsOfOneMomentShareStatements holds up the first calls of each kind, so that those that arrive meanwhile make the next
// statement.
func TestCallsOfOneMomentShareStatements(t *testing.T) {
	t.Parallel()
	const count = 40
	in := install(t)
	p := in.start(func(o *shop.Options) { o.Timeout = 20 * time.Second })
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock = 2 * count })
	stop := in.work(p)
	ids := in.confirmed(p, sale.ID, 2*count)
	stop()
	for call, one := range map[string]func(i int) error{
		"committed": func(i int) error { _, err := p.Order(t.Context(), ids[i], all); return err },
		"pay": func(i int) error {
			_, err := p.Pay(t.Context(), ids[count+i], fmt.Sprint("reference-", i))
			return err
		},
		"cancel": func(i int) error { _, err := p.Cancel(t.Context(), ids[i], all); return err },
	} {
		var calls atomic.Int64
		arrived, release := make(chan struct{}, 2*count), make(chan struct{})
		p.store.before.Store(new(hook(func(_ context.Context, name string) error {
			if name == call {
				calls.Add(1)
				arrived <- struct{}{}
				<-release
			}
			return nil
		})))
		var wg sync.WaitGroup
		ask := func(i int) {
			wg.Go(func() {
				if err := one(i); err != nil {
					t.Errorf("%s %d: %v", call, i, err)
				}
			})
		}
		ask(0)
		<-arrived
		ask(1)
		<-arrived
		for i := 2; i < count; i++ {
			ask(i)
		}
		time.Sleep(100 * time.Millisecond) // no signal says that a call waits
		if n := calls.Load(); n != 2 {
			t.Errorf("%s: %d statements at a time, want 2", call, n)
		}
		close(release)
		wg.Wait()
		p.store.before.Store(nil)
		if n := calls.Load(); n > 4 { // some calls may not have waited yet
			t.Errorf("%s: %d statements for %d calls", call, n, count)
		}
	}
	in.counts(map[string]int{"paid": count, "cancelled": count})
	in.balanced(p, sale.ID)
}

// counts compares how many orders have each status.
func (in *installation) counts(want map[string]int) {
	in.t.Helper()
	for status, n := range want {
		if got := in.count(`SELECT count(*) FROM orders WHERE status = '` + status + `'`); got != n {
			in.t.Errorf("%d orders are %s, want %d", got, status, n)
		}
	}
}

// TestOneOrderSpoilsNoOthersEnd cancels orders together of which one is refused by the database, one belongs to a sale that another
// transaction holds, and two whose units Redis gets but nobody notes it.
func TestOneOrderSpoilsNoOthersEnd(t *testing.T) {
	t.Parallel()
	const count = 20
	in := install(t)
	p := in.start(func(o *shop.Options) { o.Timeout = 2 * time.Second })
	more := func(s *orders.Sale) { s.Items[0].Stock = 2 * count }
	sale, other := in.sale(p, more), in.sale(p, more)
	stop := in.work(p)
	ids, held := in.confirmed(p, sale.ID, count), in.confirmed(p, other.ID, 2)
	stop()
	_, err := in.pool.Exec(t.Context(), `ALTER TABLE orders ADD CONSTRAINT no_end CHECK (buyer <> 'user-7' OR status = 'confirmed')`)
	must(t, err)
	tx, err := in.pool.Begin(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM sales WHERE sale = $1 FOR UPDATE`, other.ID)
	must(t, err)
	var wg sync.WaitGroup
	var answered atomic.Int64
	for _, id := range held {
		wg.Go(func() {
			_, err := p.Cancel(t.Context(), id, all)
			if answered.Add(1); !errors.Is(err, orders.ErrUnavailable) {
				t.Errorf("of a sale that another transaction holds: %v, want ErrUnavailable", err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond) // no signal says that they are under way
	_, err = p.Cancel(t.Context(), ids[0], all)
	must(t, err)
	if answered.Load() > 0 {
		t.Error("an order of another sale was cancelled only after those of the sale that is held were given up")
	}
	var stuck atomic.Int64
	p.store.before.Store(new(hook(func(ctx context.Context, call string) error {
		if call == "returned" && stuck.Add(1) <= 2 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})))
	for i, id := range ids {
		wg.Go(func() {
			var err error
			eventually(t, "the cancellation is answered", func() bool { // repeated, as a caller does
				_, err = p.Cancel(t.Context(), id, all)
				return !errors.Is(err, orders.ErrUnavailable)
			})
			if refused := errors.Is(err, orders.ErrPoison); refused != (i == 7) || err != nil && !refused {
				t.Errorf("cancel %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	must(t, tx.Rollback(t.Context()))
	p.store.before.Store(nil)
	for _, id := range held {
		_, err := p.Cancel(t.Context(), id, all)
		must(t, err)
	}
	in.counts(map[string]int{"confirmed": 1, "cancelled": count + 1})
	in.work(p)
	in.balanced(p, sale.ID)
	in.balanced(p, other.ID)
}
