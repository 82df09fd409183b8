package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// RunInspect tests Inspect of the store that open returns for each test. change makes the database inconsistent, as no method
// of the store would.
func RunInspect(t *testing.T, open func(t *testing.T) (store storage.Store, change func(statement string))) {
	for name, c := range map[string]struct {
		statement string // %s is the order's id
		status    orders.Status
		want      []string // invariants
	}{
		"sound, confirmed": {"", orders.StatusConfirmed, nil},
		"sound, paid":      {"", orders.StatusPaid, nil},
		"sound, cancelled": {"", orders.StatusCancelled, nil},
		"sound, rejected":  {"", orders.StatusRejected, nil},
		"no event":         {"DELETE FROM order_events WHERE order_id = '%s'", orders.StatusConfirmed, []string{"I9"}},
		"no event of the confirmation": {"DELETE FROM order_events WHERE order_id = '%s' AND status = 'confirmed'", orders.StatusCancelled,
			[]string{"I9"}},
		"no event but the refund": {"DELETE FROM order_events WHERE order_id = '%s' AND action <> 'refund'", orders.StatusPaid,
			[]string{"I11", "I9"}},
		"another status":     {"UPDATE orders SET status = 'expired' WHERE order_id = '%s'", orders.StatusCancelled, []string{"I9"}},
		"back from the dead": {"UPDATE orders SET status = 'confirmed' WHERE order_id = '%s'", orders.StatusCancelled, []string{"I10", "I9"}},
		"ended twice": {
			"INSERT INTO order_events (at, order_id, status) SELECT at, order_id, 'expired' FROM order_events WHERE order_id = '%s' AND status " +
				"= 'cancelled'",
			orders.StatusCancelled,
			[]string{"I10"},
		},
		"a payment lost":         {"DELETE FROM payments WHERE order_id = '%s' AND action = 'none'", orders.StatusPaid, []string{"I11", "I11"}},
		"a refund lost":          {"DELETE FROM payments WHERE order_id = '%s' AND action = 'refund'", orders.StatusPaid, []string{"I11"}},
		"a refund without event": {"DELETE FROM order_events WHERE order_id = '%s' AND action = 'refund'", orders.StatusPaid, []string{"I11"}},
		"a refund that counts": {"UPDATE payments SET action = 'none' WHERE order_id = '%s'", orders.StatusCancelled,
			[]string{"I11", "I11", "I11"}},
		"an order lost":          {"DELETE FROM orders WHERE order_id = '%s'", orders.StatusConfirmed, []string{"I2"}},
		"a cancelled order lost": {"DELETE FROM orders WHERE order_id = '%s'", orders.StatusCancelled, []string{"I2", "I2", "I2"}},
		"an order not expired":   {"UPDATE orders SET pay_before = confirmed_at WHERE order_id = '%s'", orders.StatusConfirmed, []string{"I14"}},
		"a paid order is late":   {"UPDATE orders SET pay_before = confirmed_at WHERE order_id = '%s'", orders.StatusPaid, nil},
	} {
		t.Run(name, func(t *testing.T) {
			store, change := open(t)
			b := &bench{t: t, Store: store}
			b.put()
			r, sound := b.reservation(1), b.reservation(2)
			if c.status == orders.StatusRejected {
				r.Reason = orders.ReasonDuplicate
			}
			b.commit(r, sound)
			switch c.status {
			case orders.StatusPaid:
				b.capture(r.ID, "first")
				b.capture(r.ID, "second")
			case orders.StatusRejected: // a dead letter's, whose key another order has
				b.must(b.DeleteDeadLetter(t.Context(), r.ID, []storage.Return{{ID: r.ID, Sale: r.Sale, Item: r.Item, Quantity: 1, Units: []int{1}}}))
			case orders.StatusCancelled:
				b.cancel(r.ID)
				b.capture(r.ID, "late")
			}
			late := time.Hour
			if slices.Contains(c.want, "I14") {
				late = 0
			}
			if c.statement != "" {
				change(fmt.Sprintf(c.statement, r.ID))
			}
			in, err := store.Inspect(t.Context(), "spring", late)
			b.must(err)
			var got []string
			for _, breach := range in.Breaches {
				got = append(got, breach.Invariant)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v, want %v", in, c.want)
			}
		})
	}
}
