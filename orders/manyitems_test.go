package orders_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// Many items cost Redis little while nothing happens, and the loss of one of them, or of all, is found all the same.
func TestManyItemsAtRest(t *testing.T) {
	t.Parallel()
	in := installOn(t, testenv.StartRedis(t).URL())
	p := in.start()
	in.work(p)
	var sale orders.Sale
	for n := range 2 {
		sale = in.sale(p, func(s *orders.Sale) {
			s.ID = fmt.Sprint("many-", n)
			shoe := s.Items[0]
			s.Items = nil
			for i := range orders.MaxItems {
				s.Items = append(s.Items, shoe)
				shoe.ID = fmt.Sprint("shoe-", i+1)
			}
		})
	}
	// The sweeper counts the orders of each item, and 250 items are looked at, with ten commands each.
	const seconds, most = 4, (2*orders.MaxItems + 250*10) * 4 * 115 / 100
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
	must(t, in.rdb.Del(t.Context(), fmt.Sprintf("%s:{%s:shoe-%d}:%d:item", in.namespace, sale.ID, orders.MaxItems-1, sale.Epoch)).Err())
	recovers("one item was lost")
	must(t, in.rdb.FlushAll(t.Context()).Err())
	recovers("all were lost")
	if out := in.order(p, sale.ID, "ann", "", 1); !out.Admitted() {
		t.Errorf("%+v", out)
	}
}
