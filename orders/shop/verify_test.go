package shop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/postgres"
)

// check returns the verdict on one invariant.
func (in *installation) check(p *process, sale, invariant string) orders.Check {
	in.t.Helper()
	checks, err := p.Verify(in.t.Context(), sale)
	must(in.t, err)
	for _, c := range checks {
		if c.Invariant == invariant {
			return c
		}
	}
	in.t.Fatalf("no check of %s", invariant)
	return orders.Check{}
}

func TestVerifyKnowsUnitsOnTheirWayBack(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	stop := in.work(p)
	sale := in.sale(p)
	id := in.order(p, sale.ID, "ada", "", 1).Order.ID
	in.settled(p, id)
	eventually(t, "queues are empty", func() bool { return in.verified(p, sale.ID) == 0 })
	stop()

	// Cancelled by a process that died before it returned the unit.
	ended, err := postgres.New(in.pool).Cancel(t.Context(), []orders.ID{id})
	must(t, err)
	if waiting := in.verified(p, sale.ID); waiting != 1 {
		t.Errorf("%d wait, want the unit", waiting)
	}
	if c := in.check(p, sale.ID, "I6"); c.Detail != "9 free + 0 reserved + 0 sold + 1 on their way back + 0 in dead letters = 10" {
		t.Error(c.Detail)
	}
	stop = in.work(p)
	eventually(t, "the unit is back", func() bool { return in.verified(p, sale.ID) == 0 })
	stop()

	// Returned by a process that died before it recorded that.
	_, err = in.pool.Exec(t.Context(), `INSERT INTO order_returns VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		[16]byte(ended[0].ID), ended[0].Sale, ended[0].Item, ended[0].Epoch, ended[0].BuyerHash, ended[0].WithoutKey, ended[0].Quantity, ended[0].Units)
	must(t, err)
	if waiting := in.verified(p, sale.ID); waiting != 0 {
		t.Errorf("%d wait", waiting)
	}
}

func TestVerifySaysWhatToDo(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p)
	id := in.order(p, sale.ID, "ada", "", 1).Order.ID
	in.settled(p, id)
	_, err := in.pool.Exec(t.Context(), `ALTER TABLE order_events DISABLE TRIGGER USER`)
	must(t, err)
	for invariant, breach := range map[string]struct{ do, undo string }{
		"I5":  {`UPDATE order_units SET unit = unit + 1`, `UPDATE order_units SET unit = unit - 1`},
		"I9":  {`UPDATE order_events SET status = 'rejected'`, `UPDATE order_events SET status = 'confirmed'`},
		"I11": {`INSERT INTO payments (reference, order_id, action) SELECT 'forged', order_id, 'none' FROM orders`, `DELETE FROM payments`},
	} {
		_, err := in.pool.Exec(t.Context(), breach.do)
		must(t, err)
		if c := in.check(p, sale.ID, invariant); c.OK || c.Breaches == 0 || c.Advice == "" || !strings.Contains(c.Detail, p.Shown(id, "").String()) {
			t.Errorf("%s: %+v", invariant, c)
		}
		_, err = in.pool.Exec(t.Context(), breach.undo)
		must(t, err)
		if c := in.check(p, sale.ID, invariant); !c.OK || c.Breaches != 0 || c.Advice != "" {
			t.Errorf("%s: %+v", invariant, c)
		}
	}
}

// Rows that refer to a missing order belong to no sale, so every sale reports them, with the sale that the order was placed in.
func TestVerifyNamesTheSaleOfAMissingOrder(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	asked, other := in.sale(p), in.sale(p)
	for _, sale := range []string{asked.ID, other.ID} {
		in.settled(p, in.order(p, sale, "ada", "", 1).Order.ID)
	}
	id := in.order(p, other.ID, "bob", "", 1).Order.ID
	in.settled(p, id)
	forged := orders.ID{0x80, 6: 0x8f, 8: 0xbf, 9: 0xff, 15: 1}
	_, err := in.pool.Exec(t.Context(), `DELETE FROM orders WHERE order_id = $1`, [16]byte(id))
	must(t, err)
	_, err = in.pool.Exec(t.Context(), `INSERT INTO payments (reference, order_id, action) VALUES ('forged', $1, 'refund')`, [16]byte(forged))
	must(t, err)
	c := in.check(p, asked.ID, "I2")
	for _, want := range []string{
		"an event of order " + p.Shown(id, "").String() + ", which there is not (item shoe of sale " + other.ID + ")",
		"a payment of order " + p.Shown(forged, "").String() + ", which there is not (of an unknown sale)",
	} {
		if c.OK || !strings.Contains(c.Detail, want) {
			t.Errorf("%q is not in %+v", want, c)
		}
	}
}

// The id of an anonymous order is a secret: results of verifications are logged, and shown to those who only look.
func TestVerifyHidesIDsOfAnonymousOrders(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) { s.RequiresUser = false })
	id := in.order(p, sale.ID, "", "key-of-the-anonymous-order", 1).Order.ID
	in.settled(p, id)
	_, err := in.pool.Exec(t.Context(), `UPDATE order_units SET unit = unit + 1`)
	must(t, err)
	c := in.check(p, sale.ID, "I5")
	if c.OK || strings.Contains(c.Detail, id.String()) || !strings.Contains(c.Detail, p.Shown(id, "").String()) {
		t.Errorf("%+v", c)
	}
}

// TestVerifyMissesWhatRedisForgetsInPart deletes the data that enforces quotas and recognizes repeated requests.
func TestVerifyMissesWhatRedisForgetsInPart(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 2 })
	id := in.order(p, sale.ID, "ada", "key", 2).Order.ID
	in.settled(p, id)
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
	for name, invariant := range map[string]string{"buyers": "I4", "keys": "I7"} {
		keys, err := in.rdb.Keys(t.Context(), in.namespace+":{"+sale.ID+":shoe}:*:"+name).Result()
		must(t, err)
		if len(keys) != 1 {
			t.Fatalf("%s: %v", name, keys)
		}
		was, err := in.rdb.Dump(t.Context(), keys[0]).Result()
		must(t, err)
		in.loses(keys[0])
		if c := in.check(p, sale.ID, invariant); c.OK || c.Breaches != 1 || c.Advice == "" || !strings.Contains(c.Detail, p.Shown(id, "").String()) {
			t.Errorf("without %s: %+v", name, c)
		}
		must(t, in.rdb.RestoreReplace(t.Context(), keys[0], 0, was).Err())
		in.verified(p, sale.ID)
	}
}

// loses removes all entries of a hash but its sentinel.
func (in *installation) loses(key string) {
	in.t.Helper()
	fields, err := in.rdb.HKeys(in.t.Context(), key).Result()
	must(in.t, err)
	must(in.t, in.rdb.HDel(in.t.Context(), key, slices.DeleteFunc(fields, func(f string) bool { return f == "-" })...).Err())
}

// A server that stops for longer than a request may take delays the check, and does not fail it.
func TestVerifyEnduresAStall(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	in := installIn(t, server.URL(), testenv.Postgres(t))
	p := in.start()
	sale := in.sale(p)
	must(t, in.rdb.Do(t.Context(), "CLIENT", "PAUSE", 150, "ALL").Err())
	if _, err := p.Verify(t.Context(), sale.ID); err != nil {
		t.Errorf("%v, want a check that was repeated", err)
	}
}

func TestVerifyIsNotForASaleThatIsBeingLoaded(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p)
	keys, err := in.rdb.Keys(t.Context(), in.namespace+":{"+sale.ID+":shoe}:*:item").Result()
	must(t, err)
	p.follows() // or it would load the sale
	must(t, in.rdb.HSet(t.Context(), keys[0], "recovering", 1).Err())
	if _, err := p.Verify(t.Context(), sale.ID); err == nil {
		t.Error("half a sale was judged")
	}
	must(t, in.rdb.HDel(t.Context(), keys[0], "recovering").Err())
	p.mayLead()
	in.verified(p, sale.ID)
}

// One process verifies, at once, and all learn what it found.
func TestOneProcessVerifiesForAll(t *testing.T) {
	t.Parallel()
	in := install(t)
	processes := []*process{in.start(), in.start()}
	sale := in.sale(processes[0])
	in.sale(processes[0], func(s *orders.Sale) { // it would be the first; it has no orders yet
		s.ID, s.StartsAt, s.EndsAt = "a-"+s.ID, s.StartsAt.AddDate(0, 0, 7), s.EndsAt.AddDate(0, 0, 7)
	})
	in.work(processes[0])
	in.settled(processes[0], in.order(processes[0], sale.ID, "ada", "key", 1).Order.ID)
	if _, err := in.pool.Exec(t.Context(), `UPDATE orders SET status = 'cancelled', key_hash = NULL`); err != nil { // something to find
		t.Fatal(err)
	}
	type result struct {
		by     int
		sale   string
		checks []orders.Check
		at     time.Time
	}
	results := make(chan result, 10)
	for i, p := range processes {
		stop := in.run(func(ctx context.Context) error {
			err := p.VerifyInBackground(ctx, func(sale string, checks []orders.Check, at time.Time) { results <- result{i, sale, checks, at} })
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
		t.Cleanup(stop)
	}
	all := make(map[int]result)
	full := 0
	for len(all) < len(processes) {
		select {
		case r := <-results:
			if len(r.checks) > 10 {
				full++
			}
			all[r.by] = r
		case <-time.After(20 * time.Second):
			t.Fatalf("only %v", all)
		}
	}
	broken := func(r result) (names []string) {
		for _, c := range r.checks {
			if !c.OK {
				names = append(names, c.Invariant)
			}
		}
		return names
	}
	if a, b := all[0], all[1]; full != 1 || a.sale != sale.ID || b.sale != sale.ID || a.at.Sub(b.at).Abs() > time.Second ||
		len(broken(a)) == 0 || !slices.Equal(broken(a), broken(b)) {
		t.Errorf("%d verified: %+v, %+v", full, a, b)
	}
	later := in.sale(processes[1])
	for seen := make(map[int]bool); len(seen) < len(processes); {
		select {
		case r := <-results:
			if r.sale == later.ID {
				seen[r.by] = true
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("a new sale is known as verified by %v", seen)
		}
	}
}

// TestVerifyIsQuietWhileASaleLives verifies while units move all the time.
func TestVerifyIsQuietWhileASaleLives(t *testing.T) {
	t.Parallel()
	in := install(t)
	p, other := in.start(), in.start()
	in.work(p)
	in.work(other)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock, s.Hold = 20, 20*time.Millisecond })
	var (
		buyers errgroup.Group
		over   = make(chan struct{})
		ended  atomic.Int64
	)
	for b := range 8 {
		buyers.Go(func() error {
			for n := 0; ; n++ {
				select {
				case <-over:
					return nil
				default:
				}
				user := fmt.Sprintf("buyer-%d-%d", b, n)
				out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: user})
				if err != nil || !out.Admitted() {
					continue // sold out for a moment
				}
				v := orders.Viewer{User: user}
				_, err = other.Wait(t.Context(), out.Order.ID, v, orders.StatusAccepted, time.Minute)
				if err == nil && n%2 == 0 {
					_, err = other.Cancel(t.Context(), out.Order.ID, v)
				}
				switch {
				case err == nil:
					ended.Add(1)
				case !errors.Is(err, orders.ErrOrderFinal) && !errors.Is(err, orders.ErrUnavailable): // a busy machine
					return err
				}
			}
		})
	}
	for n, began := 0, time.Now(); n < testenv.Size(8, 20) || ended.Load() < 20 && time.Since(began) < time.Minute; n++ {
		eventually(t, "somebody can tell", func() bool {
			checks, err := other.Verify(t.Context(), sale.ID)
			for _, c := range checks {
				if !c.OK {
					t.Errorf("%s: %s", c.Invariant, c.Detail)
				}
			}
			return err == nil
		})
	}
	close(over)
	must(t, buyers.Wait())
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
	if n := ended.Load(); n < 20 {
		t.Errorf("only %d orders came to an end", n)
	}
}
