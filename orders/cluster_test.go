package orders_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
)

// TestASaleOnACluster sells items that live on different masters.
func TestASaleOnACluster(t *testing.T) {
	nodes := testenv.RedisCluster(t)
	in := installOn(t, "redis://"+strings.Join(nodes, ","))
	p := in.start()
	in.work(p)
	sale := in.sale(p, func(s *orders.Sale) {
		for i := range 12 {
			s.Items = append(s.Items, orders.Item{ID: fmt.Sprint("item-", i), Stock: 3, QuotaPerBuyer: 1, InFlightMax: 10})
		}
	})
	var ids []orders.ID
	for _, it := range sale.Items[1:] {
		for user := range 5 {
			out, err := attempt(t.Context(), p, orders.Request{Sale: sale.ID, Item: it.ID, Quantity: 1, User: fmt.Sprint(user)})
			must(t, err)
			if out.Admitted() != (user < 3) {
				t.Errorf("item %s, buyer %d: %+v", it.ID, user, out)
			}
			if out.Admitted() {
				ids = append(ids, out.Order.ID)
			}
		}
	}
	for _, id := range ids {
		if o := in.settled(p, id); o.Status != orders.StatusConfirmed {
			t.Errorf("order %+v", o)
		}
	}
	eventually(t, "all is settled", func() bool { return in.verified(p, sale.ID) == 0 })
}
