package shop_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

func TestAUnitThatIsTakenIsReplaced(t *testing.T) {
	t.Parallel()
	in := install(t)
	p := in.start()
	sale := in.sale(p, func(s *orders.Sale) { s.Items[0].Stock, s.Items[0].QuotaPerBuyer = 6, 3 })
	first := in.order(p, sale.ID, "first", "k", 3)   // units 1, 2, 3
	second := in.order(p, sale.ID, "second", "k", 2) // units 4, 5
	// Redis went back in time without being noticed: another order owns units 2 and 4.
	owner := orders.Reservation{
		ID: first.Order.ID, Epoch: 1, Sale: sale.ID, Item: "shoe", Buyer: "owner", BuyerHash: "owner", Quantity: 2,
		Units: []int{2, 4}, AcceptedMS: time.Now().UnixMilli(),
	}
	owner.ID = p.NewID(owner.ID.Time(), owner.ID.Item())
	_, err := in.store().Commit(t.Context(), []orders.Reservation{owner})
	must(t, err)
	in.knows(owner)
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
	// 6 units, of which the owner has 2 and another 2 are disputed again: 1 new unit for 2 claims.
	if seated+rejected != 5 || seated < 2 {
		t.Errorf("%d seated, %d rejected", seated, rejected)
	}
	if o, err := p.Order(t.Context(), owner.ID, orders.Viewer{All: true}); err != nil || len(o.Units) != 2 {
		t.Errorf("the owner lost its units: %+v %v", o, err)
	}
	// The undisputed units of the rejected order are on sale again, and no unit is missing.
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

// TestADuplicateGivesBackWhatItHeld commits an order whose identity belongs to another order in the database.
func TestADuplicateGivesBackWhatItHeld(t *testing.T) {
	t.Parallel()
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
	first.Units = []int{2} // Redis lost that it gave this unit to the same buyer
	_, err = in.store().Commit(t.Context(), []orders.Reservation{first})
	must(t, err)
	in.work(p)
	if o := in.settled(p, placed.Order.ID); o.Status != orders.StatusRejected || o.Reason != orders.ReasonDuplicate {
		t.Fatalf("order %+v", o)
	}
	eventually(t, "unit 1 and the buyer's entry came back", func() bool {
		units, err := in.rdb.SMembers(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:returned").Result()
		must(t, err)
		units = slices.DeleteFunc(units, func(u string) bool { return u == "-" })
		buyers, err := in.rdb.HKeys(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:buyers").Result()
		must(t, err)
		keys, err := in.rdb.HKeys(t.Context(), in.namespace+":{"+sale.ID+":shoe}:1:keys").Result()
		must(t, err)
		return slices.Equal(units, []string{"1"}) && slices.Equal(slices.Concat(buyers, keys), []string{"-", "-"})
	})
}

// TestARejectionThatWasCutOffGivesBackLater: the worker dies between the row and Redis.
func TestARejectionThatWasCutOffGivesBackLater(t *testing.T) {
	t.Parallel()
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

// TestAnOrderThatLostAUnitIsRejectedWhoeverFindsIt: the rejection of an order fails after reassign.lua left it with the one unit
// that was its own.
func TestAnOrderThatLostAUnitIsRejectedWhoeverFindsIt(t *testing.T) {
	t.Parallel()
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
	owner.ID = p.NewID(owner.ID.Time(), owner.ID.Item())
	owner.BuyerHash, owner.Quantity, owner.Units = "owner", 1, []int{2}
	_, err = in.store().Commit(t.Context(), []orders.Reservation{owner})
	must(t, err)
	in.knows(owner)
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

// knows adds a buyer and a key to Redis, as if they had ordered there.
func (in *installation) knows(r orders.Reservation) {
	in.t.Helper()
	item := fmt.Sprintf("%s:{%s:%s}:%d:", in.namespace, r.Sale, r.Item, r.Epoch)
	must(in.t, in.rdb.HSet(in.t.Context(), item+"buyers", r.BuyerHash, fmt.Sprint(r.Quantity, " ", r.ID)).Err())
	must(in.t, in.rdb.HSet(in.t.Context(), item+"keys", r.BuyerHash+r.KeyHash, fmt.Sprint(r.ID, " ", r.Quantity)).Err())
}
