package storetest

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

func testTotals(t *testing.T, b *bench) {
	b.putHeld(time.Hour)
	var all []orders.Reservation
	for _, units := range [][]int{{1, 2}, {3}, {4, 5, 6}, {7}, {8}} {
		r := b.reservation(units...)
		all = append(all, r)
	}
	all[4].Reason = orders.ReasonRecoveredLate
	b.commit(all...)
	b.capture(all[0].ID, "pay-1")
	b.cancel(all[2].ID)
	b.capture(all[2].ID, "too late") // and so is to be refunded
	b.cancel(all[3].ID)

	got, err := b.Totals(t.Context(), "spring")
	b.must(err)
	b.want(got.Orders, map[orders.Status]int{
		orders.StatusPaid: 1, orders.StatusConfirmed: 1, orders.StatusCancelled: 2,
		orders.StatusRejected: 1,
	}, "orders")
	b.want(got.Refunds, 1, "captures to refund")
	shoe := got.Items[all[0].Item]
	b.want(shoe.Latest.Equal(b.order(all[1].ID).AcceptedAt), true, "the latest order with units")
	b.want([]int{shoe.Cancelled, shoe.Expired}, []int{4, 0}, "units that came back")

	b.putHeld(time.Millisecond)
	late := b.reservation(9, 10)
	b.commit(late)
	b.expire(1)
	got, err = b.Totals(t.Context(), "spring")
	b.must(err)
	b.want(got.Items[late.Item].Expired, 2, "units of expired orders")
	none, err := b.Totals(t.Context(), "autumn")
	b.must(err)
	b.want(len(none.Orders)+len(none.Items)+none.Refunds, 0, "of another sale")
}
