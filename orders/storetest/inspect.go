package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// A Damage makes a database inconsistent, as no method of a store would.
type Damage struct {
	SQL  string      // a statement
	Rows func(*Rows) // the same, for a store without SQL
}

// Rows are those of a database that a Damage changes. An event has no more than its table.
type Rows struct {
	Orders   []orders.Order
	Events   []orders.Event
	Payments []orders.Payment
}

// RunInspect tests Inspect of the store that open returns for each test.
func RunInspect(t *testing.T, open func(t *testing.T) (store storage.Store, damage func(Damage))) {
	const (
		captured = orders.ActionNone
		refund   = orders.ActionRefund
	)
	for name, c := range map[string]struct {
		statement string // %s is the order's id
		rows      func(r *Rows, id orders.ID)
		status    orders.Status
		want      []string // invariants
	}{
		"sound, confirmed": {"", nil, orders.StatusConfirmed, nil},
		"sound, paid":      {"", nil, orders.StatusPaid, nil},
		"sound, cancelled": {"", nil, orders.StatusCancelled, nil},
		"sound, rejected":  {"", nil, orders.StatusRejected, nil},
		"no event": {
			"DELETE FROM order_events WHERE order_id = '%s'",
			deleteEvents(func(orders.Event) bool { return true }), orders.StatusConfirmed,
			[]string{"I9"},
		},
		"no event of the confirmation": {
			"DELETE FROM order_events WHERE order_id = '%s' AND status = 'confirmed'",
			deleteEvents(func(e orders.Event) bool { return e.Status == orders.StatusConfirmed }), orders.StatusCancelled,
			[]string{"I9"},
		},
		"no event but the refund": {
			"DELETE FROM order_events WHERE order_id = '%s' AND action <> 'refund'",
			deleteEvents(func(e orders.Event) bool { return e.Action != refund }), orders.StatusPaid,
			[]string{"I11", "I9"},
		},
		"another status": {
			"UPDATE orders SET status = 'expired' WHERE order_id = '%s'",
			changeOrder(func(o *orders.Order) { o.Status = orders.StatusExpired }), orders.StatusCancelled,
			[]string{"I9"},
		},
		"back from the dead": {
			"UPDATE orders SET status = 'confirmed' WHERE order_id = '%s'",
			changeOrder(func(o *orders.Order) { o.Status = orders.StatusConfirmed }), orders.StatusCancelled,
			[]string{"I10", "I9"},
		},
		"ended twice": {
			"INSERT INTO order_events (at, order_id, status) SELECT at, order_id, 'expired' FROM order_events WHERE order_id = '%s' AND status " +
				"= 'cancelled'",
			func(r *Rows, id orders.ID) {
				last := r.Events[len(r.Events)-1]
				r.Events = append(r.Events, orders.Event{Seq: last.Seq + 1, At: last.At, OrderID: id, Status: orders.StatusExpired})
			}, orders.StatusCancelled,
			[]string{"I10"},
		},
		"a payment lost": {
			"DELETE FROM payments WHERE order_id = '%s' AND action = 'none'",
			deletePayments(captured), orders.StatusPaid,
			[]string{"I11", "I11"},
		},
		"a refund lost": {
			"DELETE FROM payments WHERE order_id = '%s' AND action = 'refund'",
			deletePayments(refund), orders.StatusPaid,
			[]string{"I11"},
		},
		"a refund without event": {
			"DELETE FROM order_events WHERE order_id = '%s' AND action = 'refund'",
			deleteEvents(func(e orders.Event) bool { return e.Action == refund }), orders.StatusPaid,
			[]string{"I11"},
		},
		"a refund that counts": {
			"UPDATE payments SET action = 'none' WHERE order_id = '%s'",
			func(r *Rows, id orders.ID) {
				for i := range r.Payments {
					if r.Payments[i].Order == id {
						r.Payments[i].Action = captured
					}
				}
			}, orders.StatusCancelled,
			[]string{"I11", "I11", "I11"},
		},
		"an order lost":          {"DELETE FROM orders WHERE order_id = '%s'", deleteOrder, orders.StatusConfirmed, []string{"I2"}},
		"a cancelled order lost": {"DELETE FROM orders WHERE order_id = '%s'", deleteOrder, orders.StatusCancelled, []string{"I2", "I2", "I2"}},
		"an order not expired":   {notInTime, changeOrder(setNotInTime), orders.StatusConfirmed, []string{"I14"}},
		"a paid order is late":   {notInTime, changeOrder(setNotInTime), orders.StatusPaid, nil},
	} {
		t.Run(name, func(t *testing.T) {
			store, damage := open(t)
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
				damage(Damage{SQL: fmt.Sprintf(c.statement, r.ID), Rows: func(rows *Rows) { c.rows(rows, r.ID) }})
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

const notInTime = "UPDATE orders SET pay_before = confirmed_at WHERE order_id = '%s'"

func setNotInTime(o *orders.Order) { o.PayBefore = o.ConfirmedAt }

func deleteEvents(of func(orders.Event) bool) func(*Rows, orders.ID) {
	return func(r *Rows, id orders.ID) {
		r.Events = slices.DeleteFunc(r.Events, func(e orders.Event) bool { return e.OrderID == id && of(e) })
	}
}

func deletePayments(of orders.Action) func(*Rows, orders.ID) {
	return func(r *Rows, id orders.ID) {
		r.Payments = slices.DeleteFunc(r.Payments, func(p orders.Payment) bool { return p.Order == id && p.Action == of })
	}
}

func deleteOrder(r *Rows, id orders.ID) {
	r.Orders = slices.DeleteFunc(r.Orders, func(o orders.Order) bool { return o.ID == id })
}

func changeOrder(change func(*orders.Order)) func(*Rows, orders.ID) {
	return func(r *Rows, id orders.ID) {
		for i := range r.Orders {
			if r.Orders[i].ID == id {
				change(&r.Orders[i])
			}
		}
	}
}
