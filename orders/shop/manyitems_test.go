package shop_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

const manyItems = 1_000

// Many items cost Redis little while nothing happens, and the loss of one of them, or of all, is found all the same.
func TestManyItemsAtRest(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	p := in.start()
	var sale orders.Sale
	for n := range 2 {
		sale = in.sale(p, func(s *orders.Sale) {
			s.ID = fmt.Sprint("many-", n)
			shoe := s.Items[0]
			s.Items = nil
			for i := range manyItems {
				s.Items = append(s.Items, shoe)
				shoe.ID = fmt.Sprint("shoe-", i+1)
			}
		})
	}
	// Orders that the queue lost are committed, of whichever item.
	var lost []orders.ID
	for _, item := range []string{"shoe", fmt.Sprint("shoe-", manyItems/2), fmt.Sprint("shoe-", manyItems-1)} {
		in.answered("an order", func() error {
			out, err := p.Place(t.Context(), orders.Request{Sale: sale.ID, Item: item, User: "ben"})
			if err == nil {
				lost = append(lost, out.Order.ID)
			}
			return err
		})
	}
	in.loseTasks(len(lost))
	in.work(p)
	for _, id := range lost {
		if o := in.settled(p, id); o.Status != orders.StatusConfirmed {
			t.Errorf("order %+v", o)
		}
	}
	// A second, the sweeper counts the orders of 250 items, and 100 items are looked at, with ten commands each.
	const seconds, most = 4, (250 + 100*10) * 4 * 115 / 100
	eventually(t, fmt.Sprint("at most ", most, " commands in ", seconds, " s"), func() bool { // before, what has changed is compared
		must(t, in.rdb.ConfigResetStat(t.Context()).Err())
		time.Sleep(seconds * time.Second)
		calls := 0
		text, err := in.rdb.Info(t.Context(), "commandstats").Result()
		must(t, err)
		for line := range strings.Lines(text) {
			var n int
			if _, numbers, ok := strings.Cut(line, ":calls="); ok {
				_, err := fmt.Sscanf(numbers, "%d,", &n)
				must(t, err)
				calls += n
			}
		}
		return calls <= most
	})

	recovers := func(what string) {
		t.Helper()
		began := time.Now()
		for recovered := false; !recovered; { // a thousand items take seconds, and with -race beside other tests a minute
			now, err := p.store.sale(t.Context(), sale.ID)
			recovered = err == nil && now.Epoch > sale.Epoch && now.EpochFloor == now.Epoch
			if time.Sleep(50 * time.Millisecond); t.Context().Err() != nil || time.Since(began) > 2*time.Minute {
				t.Fatalf("not within two minutes: %s", what)
			}
		}
		var err error
		sale, err = p.store.sale(t.Context(), sale.ID)
		must(t, err)
	}
	must(t, in.rdb.Del(t.Context(), fmt.Sprintf("%s:{%s:shoe-%d}:%d:item", in.namespace, sale.ID, manyItems-1, sale.Epoch)).Err())
	recovers("one item was lost")
	must(t, in.rdb.FlushAll(t.Context()).Err())
	recovers("all were lost")
	if out := in.order(p, sale.ID, "ann", "", 1); !out.Admitted() {
		t.Errorf("%+v", out)
	}
}

// The largest catalogue is defined, extended, verified, and rebuilt after a loss, each within seconds.
func TestTheLargestCatalogue(t *testing.T) { // not parallel: it takes one server all the time that this machine has
	in := installOn(t, testenv.StartRedis(t).URL())
	p := in.start()
	in.work(p)
	def := orders.Definition{ID: "catalogue", StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour)}
	for i := range orders.MaxItems - 1 {
		def.Items = append(def.Items, orders.ItemDefinition{ID: fmt.Sprint("part-", i), Stock: 3})
	}
	put := func(want bool) {
		t.Helper()
		began := time.Now()
		status, created, err := p.PutSale(t.Context(), def)
		for range 5 { // the machine is busy: it is stored, and repeated as a caller would
			if !errors.Is(err, orders.ErrUnavailable) {
				break
			}
			created = want
			status, _, err = p.PutSale(t.Context(), def)
		}
		must(t, err)
		t.Logf("put after %v", time.Since(began))
		if created != want || len(status.Free) != len(def.Items) {
			t.Errorf("created %v, %d of %d items can be ordered", created, len(status.Free), len(def.Items))
		}
	}
	put(true)
	_, err := p.SetSwitch(t.Context(), def.ID, orders.SwitchOpen)
	must(t, err)
	def.Items[0].Stock = 4
	def.Items = append(def.Items, orders.ItemDefinition{ID: "last", Stock: 3})
	put(false)
	for _, item := range []string{"part-0", "part-5000", "last"} {
		if out, err := p.Place(t.Context(), orders.Request{Sale: def.ID, Item: item, User: "ann"}); err != nil || !out.Admitted() {
			t.Errorf("%s: %+v, %v", item, out, err)
		}
	}
	began := time.Now()
	must(t, in.rdb.FlushAll(t.Context()).Err())
	for open := false; !open; { // not more often: a look is at all items
		if time.Sleep(200 * time.Millisecond); time.Since(began) > 2*time.Minute {
			t.Fatal("the sale is not open again")
		}
		status, err := p.Sale(t.Context(), def.ID)
		open = err == nil && status.Epoch > 1 && status.State == orders.StateOpen
	}
	t.Logf("rebuilt after %v", time.Since(began))
	began = time.Now()
	checks, err := p.Verify(t.Context(), def.ID)
	must(t, err)
	t.Logf("verified after %v", time.Since(began))
	for _, c := range checks {
		if !c.OK {
			t.Error(c)
		}
	}
	def.Items = append(def.Items, orders.ItemDefinition{ID: "one-too-many"})
	if _, _, err := p.PutSale(t.Context(), def); !errors.Is(err, orders.ErrInvalid) || !strings.Contains(err.Error(), "10001") {
		t.Error(err)
	}
}

// Items that are added and changed one by one leave the others as they are, also when that is done at the same time.
func TestItemsOneByOne(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].QuotaPerBuyer = 3 })
	const n = 8
	var adding errgroup.Group
	for i := range n {
		adding.Go(func() error {
			_, added, err := p.PutItem(t.Context(), sale.ID, orders.ItemDefinition{ID: fmt.Sprint("part-", i), Stock: i + 1})
			if err == nil && !added {
				err = fmt.Errorf("part-%d was there", i)
			}
			return err
		})
	}
	must(t, adding.Wait())
	status, added, err := p.PutItem(t.Context(), sale.ID, orders.ItemDefinition{ID: "part-3", Stock: 9, QuotaPerBuyer: 2, Final: true})
	must(t, err)
	if added || len(status.Items) != n+1 || status.Items[0].Stock != sale.Items[0].Stock || status.Items[0].QuotaPerBuyer != 3 {
		t.Errorf("added %v: %+v", added, status.Items)
	}
	for i := range n {
		want := orders.Item{ID: fmt.Sprint("part-", i), Stock: i + 1, QuotaPerBuyer: 1, HighestQuota: 1, InFlightMax: orders.DefaultInFlight}
		if i == 3 {
			want.Stock, want.QuotaPerBuyer, want.HighestQuota, want.Final = 9, 2, 2, true
		}
		it, ok := status.Item(want.ID)
		if !ok {
			t.Fatalf("%s is missing", want.ID)
		}
		if want.Number = it.Number; *it != want || status.Free[it.ID] != want.Stock {
			t.Errorf("%+v with %d units free, want %+v", *it, status.Free[it.ID], want)
		}
	}
	if out, err := p.Place(t.Context(), orders.Request{Sale: sale.ID, Item: "part-7", User: "ann"}); err != nil || !out.Admitted() {
		t.Errorf("%+v, %v", out, err)
	}
	for _, tt := range []struct {
		sale string
		item orders.ItemDefinition
		want error
		part string
	}{
		{sale.ID, orders.ItemDefinition{ID: "part-3", Stock: 8, Final: true}, orders.ErrConflict, "cannot shrink"},
		{sale.ID, orders.ItemDefinition{ID: "part-3", Stock: 10, Final: true}, orders.ErrConflict, "final"},
		{sale.ID, orders.ItemDefinition{ID: "{}", Stock: 1}, orders.ErrInvalid, "Item.ID"},
		{sale.ID, orders.ItemDefinition{ID: "part-3", Stock: -1}, orders.ErrInvalid, "Item.Stock is -1"},
		{"none", orders.ItemDefinition{ID: "part-3", Stock: 1}, orders.ErrUnknownSale, ""},
		{"{}", orders.ItemDefinition{ID: "part-3", Stock: 1}, orders.ErrUnknownSale, ""},
	} {
		if _, _, err := p.PutItem(t.Context(), tt.sale, tt.item); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.part) {
			t.Errorf("%s %+v: %v, want %v", tt.sale, tt.item, err, tt.want)
		}
	}
}
