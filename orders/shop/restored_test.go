package shop_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop"
)

// TestARestoredServerReservesNothing sends a request while Redis is restarted from a snapshot without an order that another
// process accepted for the same buyer. The request must not become a reservation that the recovery finds: committed first, that
// would take the accepted order's key, or the quota twice.
func TestARestoredServerReservesNothing(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"the same key": "first", "another key": "second"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			in := installOn(t, server.URL())
			slow := func(o *shop.Options) { o.Timeout = 20 * time.Second }
			promises, repeats := in.start(slow), in.start(slow)
			sale := in.sale(promises)
			in.order(repeats, sale.ID, "somebody", "", 1) // so that it has verified the server of the sale
			snapshot := server.Snapshot()
			promised := in.order(promises, sale.ID, "u", "first", 1).Order
			promises.follows()
			repeats.follows()

			a, err := repeats.Prepare(orders.Request{Sale: sale.ID, Item: "shoe", Quantity: 1, User: "u", Key: key})
			must(t, err)
			repeats.rdb.AddHook(around{
				word:   in.namespace + ":{" + sale.ID + ":shoe}:1:pending",
				before: sync.OnceFunc(func() { server.RestartFrom(snapshot) }),
			})
			if out, err := a.Reserve(t.Context()); !errors.Is(err, orders.ErrRecovering) && !errors.Is(err, orders.ErrUnavailable) {
				t.Errorf("%+v, %v; want ErrRecovering", out, err)
			}
			// The snapshot has the reservation of "somebody".
			records, err := in.rdb.HVals(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:pending").Result()
			must(t, err)
			if len(records) != 2 {
				t.Errorf("the restored server holds %v, want what the snapshot has, and the sentinel", records)
			}

			// The leader commits what it found before the other process hands over.
			committed := make(chan struct{})
			commit := sync.OnceFunc(func() { close(committed) })
			repeats.store.after.Store(new(hook(func(_ context.Context, call string) error {
				if call == "commit" {
					commit()
				}
				return nil
			})))
			_, handOver := holds(&promises.store.before, "commit")
			t.Cleanup(handOver)
			repeats.mayLead()
			arrives(t, "the leader has committed", committed)
			handOver()
			in.opened(promises, sale.ID, 2)
			in.work(promises)
			if o := in.settled(promises, promised.ID); o.Status != orders.StatusConfirmed {
				t.Errorf("the promised order: %+v", o)
			}
			if n := in.count(`SELECT count(*) FROM orders WHERE buyer = 'u'`); n != 1 {
				t.Errorf("the buyer has %d orders and a quota of 1", n)
			}
			eventually(t, "all is settled", func() bool { return in.verified(promises, sale.ID) == 0 })
		})
	}
}
