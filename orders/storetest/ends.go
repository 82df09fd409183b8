package storetest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// testOneEnd runs payment, cancellation and expiry concurrently. Each order ends once, with one event; units of unpaid orders
// are returned.
func testOneEnd(t *testing.T, b *bench) {
	b.putHeld(time.Millisecond)
	const count = 30
	var placed []orders.ID
	for i := range count {
		r := b.reservation(i + 1)
		b.commit(r)
		placed = append(placed, r.ID)
	}
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		ends     = make(map[orders.ID][]orders.Status)
		captured = make(map[orders.ID]orders.Action)
		together sync.Map // ids of orders that Pay paid
	)
	end := func(id orders.ID, s orders.Status) {
		mu.Lock()
		defer mu.Unlock()
		ends[id] = append(ends[id], s)
	}
	wg.Go(func() {
		for _, id := range placed {
			p, err := b.Capture(t.Context(), id, id.String())
			if err != nil {
				t.Error(err)
			} else if captured[id] = p.Action; p.Action == orders.ActionNone {
				end(id, orders.StatusPaid)
			}
		}
	})
	wg.Go(func() {
		for chunk := range slices.Chunk(placed, 3) {
			references := map[orders.ID]string{}
			for _, id := range chunk {
				references[id] = "together " + id.String()
			}
			paid, err := b.Pay(t.Context(), references)
			if err != nil {
				t.Error(err)
			}
			for _, id := range paid {
				end(id, orders.StatusPaid)
				together.Store(id, true)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for _, id := range slices.Backward(placed) {
				list, err := b.Cancel(t.Context(), []orders.ID{id})
				if err != nil {
					t.Error(err)
				}
				for _, r := range list {
					end(r.ID, r.Status)
				}
			}
		})
		wg.Go(func() {
			for range count / 3 {
				list, err := b.Expire(t.Context(), 2)
				if err != nil {
					t.Error(err)
				}
				for _, r := range list {
					end(r.ID, r.Status)
				}
			}
		})
	}
	wg.Wait()
	statuses := make(map[orders.ID][]orders.Status)
	for _, e := range b.events() {
		if e.Action != orders.ActionRefund {
			statuses[e.OrderID] = append(statuses[e.OrderID], e.Status)
		}
	}
	returns, err := b.Returns(t.Context(), "", count)
	b.must(err)
	returned := make(map[orders.ID]int)
	for _, r := range returns {
		returned[r.ID]++
	}
	sum := make(map[orders.Status]int)
	for _, id := range placed {
		status := b.order(id).Status
		sum[status]++
		b.want(ends[id], []orders.Status{status}, "ends of one order")
		b.want(statuses[id], []orders.Status{orders.StatusConfirmed, status}, "events of one order")
		paid := 0
		if status == orders.StatusPaid {
			paid = 1
		}
		b.want(returned[id], 1-paid, "returns of an order that is "+string(status))
		_, ok := together.Load(id)
		b.want(ok || captured[id] == orders.ActionNone, paid == 1, "paid, or to be refunded")
	}
	t.Logf("ends: %v", sum)
}

func testReturns(t *testing.T, b *bench) {
	def := definition()
	def.ID = "autumn"
	autumn, _, _, err := b.PutSale(t.Context(), def)
	b.must(err)
	b.put()
	all := make(map[orders.ID]storage.Return)
	for i := range 4 {
		r := b.reservation(i + 1)
		if i == 3 {
			r.Sale, r.Epoch = autumn.ID, autumn.Epoch
		}
		b.commit(r)
		ret := *b.cancel(r.ID)
		ret.Status = "" // only the call that ends an order sets it
		all[r.ID] = ret
	}
	read := func(sale string, limit int) map[orders.ID]storage.Return {
		t.Helper()
		list, err := b.Returns(t.Context(), sale, limit)
		b.must(err)
		got := make(map[orders.ID]storage.Return)
		for _, r := range list {
			got[r.ID] = r
		}
		b.want(len(got), len(list), "returns of an order")
		return got
	}
	b.want(read("", 10), all, "returns of all sales")
	b.want(len(read("spring", 10)), 3, "returns of one")
	b.want(len(read("autumn", 10)), 1, "returns of the other")
	b.want(len(read("", 2)), 2, "some of the returns")
	var ids []orders.ID
	for id := range read("spring", 10) {
		ids = append(ids, id)
		delete(all, id)
	}
	for range 2 {
		b.must(b.Returned(t.Context(), append(ids, b.reservation(9).ID)))
		b.want(read("", 10), all, "what is left")
	}
}

func testEvents(t *testing.T, b *bench) {
	b.put()
	b.want(len(b.events()), 0, "events of no orders")
	paid, cancelled, rejected := b.reservation(1, 2), b.reservation(3), b.reservation(4)
	rejected.Reason = orders.ReasonRecoveredLate
	for _, r := range []orders.Reservation{paid, cancelled, rejected} {
		b.commit(r)
		b.commit(r) // committing twice writes one event
	}
	b.capture(paid.ID, "p")
	b.capture(paid.ID, "p")
	b.cancel(cancelled.ID)
	b.cancel(cancelled.ID)
	b.capture(cancelled.ID, "q")
	taken := b.reservation(1, 5) // another order has 1
	b.commit(taken)
	twin := b.reservation(6)
	twin.BuyerHash = paid.BuyerHash
	b.commit(twin)
	list := b.events()
	event := func(r orders.Reservation, units []int, s orders.Status) orders.Event {
		return orders.Event{OrderID: r.ID, Sale: "spring", Item: "hat", Buyer: r.Buyer, Quantity: r.Quantity, Units: units, Status: s}
	}
	want := []orders.Event{
		event(paid, []int{1, 2}, orders.StatusConfirmed),
		event(cancelled, []int{3}, orders.StatusConfirmed),
		event(rejected, nil, orders.StatusRejected),
		event(paid, []int{1, 2}, orders.StatusPaid),
		event(cancelled, []int{3}, orders.StatusCancelled),
		event(cancelled, []int{3}, orders.StatusCancelled),
		event(twin, nil, orders.StatusRejected),
	}
	want[2].Reason = orders.ReasonRecoveredLate
	want[3].Action, want[3].Reference = orders.ActionNone, "p"
	want[5].Action, want[5].Reference = orders.ActionRefund, "q"
	want[6].Reason = orders.ReasonDuplicate
	got := slices.Clone(list)
	for i := range got {
		if i > 0 && got[i].Seq <= got[i-1].Seq {
			t.Errorf("event %d follows event %d", got[i].Seq, got[i-1].Seq)
		}
		if since := time.Since(got[i].At); since < -time.Second || since > time.Minute {
			t.Errorf("event of %v ago", since)
		}
		got[i].Seq, got[i].At = 0, time.Time{}
		if len(got[i].Units) == 0 {
			got[i].Units = nil
		}
	}
	b.want(got, want, "events")
	page, err := b.Events(t.Context(), list[1].Seq, 2)
	b.must(err)
	b.want(page, list[2:4], "a page")
	page, err = b.Events(t.Context(), list[len(list)-1].Seq, 2)
	b.must(err)
	b.want(len(page), 0, "behind the last")
}
