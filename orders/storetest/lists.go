package storetest

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

func testLists(t *testing.T, b *bench) {
	b.put()
	var all []orders.ID
	for i := range 5 {
		r := b.reservation(i + 1)
		if i == 4 {
			r.Reason = orders.ReasonRecoveredLate
		}
		b.commit(r)
		all = append(all, r.ID)
	}
	for what, c := range map[string]struct {
		filter storage.Filter
		want   []orders.ID
	}{
		"all":      {storage.Filter{Sale: "spring", Limit: 10}, all},
		"a page":   {storage.Filter{Sale: "spring", Limit: 2, After: all[0]}, all[1:3]},
		"a buyer":  {storage.Filter{Sale: "spring", Limit: 10, BuyerHash: "hash-of-buyer-002"}, all[1:2]},
		"a status": {storage.Filter{Sale: "spring", Limit: 10, Status: orders.StatusRejected}, all[4:]},
		"no sale":  {storage.Filter{Sale: "autumn", Limit: 10}, nil},
	} {
		list, err := b.Orders(t.Context(), c.filter)
		b.must(err)
		var got []orders.ID
		for _, o := range list {
			got = append(got, o.ID)
		}
		b.want(got, c.want, what)
	}
	found, err := b.Statuses(t.Context(), all)
	b.must(err)
	b.want(len(found), 5, "statuses")
}

// testListsWithDeadLetters: a list must not hide an accepted order because the database refuses it.
func testListsWithDeadLetters(t *testing.T, b *bench) {
	b.put()
	var rs []orders.Reservation
	var ids []orders.ID
	for i := range 5 {
		rs = append(rs, b.reservation(i+1))
		ids = append(ids, rs[i].ID)
	}
	b.commit(rs[0], rs[2])
	for _, r := range []orders.Reservation{rs[3], rs[1], rs[4], rs[2]} {
		b.must(b.AddDeadLetter(t.Context(), r, "refused"))
	}
	b.want(list(b, storage.Filter{Limit: 10}), ids, "each once, by id")
	b.want(list(b, storage.Filter{Limit: 2}), ids[:2], "a page")
	b.want(list(b, storage.Filter{Limit: 2, After: ids[1]}), ids[2:4], "the next page")
	b.want(list(b, storage.Filter{Limit: 10, BuyerHash: rs[3].BuyerHash}), ids[3:4], "a buyer's")
	b.want(list(b, storage.Filter{Limit: 10, BuyerHash: rs[3].BuyerHash, Status: orders.StatusConfirmed}), []orders.ID(nil),
		"a buyer's that are confirmed")
	b.want(list(b, storage.Filter{Limit: 10, Status: orders.StatusConfirmed}), []orders.ID{ids[0], ids[2]}, "confirmed")
	b.want(list(b, storage.Filter{Limit: 10, Status: orders.StatusAccepted}), []orders.ID{ids[1], ids[3], ids[4]}, "accepted")
	b.want(list(b, storage.Filter{Limit: 1, Status: orders.StatusAccepted, After: ids[1]}), ids[3:4], "the next accepted")
	all, err := b.Orders(t.Context(), storage.Filter{Sale: "spring", Limit: 10})
	b.must(err)
	b.want(all[3], rs[3].Accepted(), "a dead letter in the list")
	none, err := b.Orders(t.Context(), storage.Filter{Sale: "autumn", Limit: 10})
	b.must(err)
	b.want(len(none), 0, "of another sale")
}

func list(b *bench, f storage.Filter) (ids []orders.ID) {
	b.t.Helper()
	f.Sale = "spring"
	found, err := b.Orders(b.t.Context(), f)
	b.must(err)
	for i := range found {
		ids = append(ids, found[i].ID)
	}
	return ids
}
