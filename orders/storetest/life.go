package storetest

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// putHeld defines the sale with another time to pay.
func (b *bench) putHeld(hold time.Duration) {
	b.t.Helper()
	def := definition()
	def.Hold = hold
	sale, _, _, err := b.PutSale(b.t.Context(), def)
	b.must(err)
	b.sale = sale
}

func (b *bench) capture(id orders.ID, reference string) orders.Payment {
	b.t.Helper()
	p, err := b.Capture(b.t.Context(), id, reference)
	b.must(err)
	return p
}

func (b *bench) cancel(id orders.ID) *storage.Return {
	b.t.Helper()
	list, err := b.Cancel(b.t.Context(), []orders.ID{id})
	b.must(err)
	if len(list) == 0 {
		return nil
	}
	b.want(len(list), 1, "orders that ended")
	return &list[0]
}

// expire waits until count orders are due, and ends them.
func (b *bench) expire(count int) (ended []storage.Return) {
	b.t.Helper()
	b.eventually("orders are due", func() bool {
		more, err := b.Expire(b.t.Context(), count-len(ended))
		b.must(err)
		ended = append(ended, more...)
		return len(ended) == count
	})
	return ended
}

func (b *bench) eventually(what string, ok func() bool) {
	b.t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			b.t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func (b *bench) events() []orders.Event {
	b.t.Helper()
	var list []orders.Event
	b.eventually("the feed is whole", func() bool { // another database of the server may write
		var err error
		list, err = b.Events(b.t.Context(), 0, 10_000)
		b.must(err)
		more, err := b.Events(b.t.Context(), 0, 10_000)
		b.must(err)
		return len(more) == len(list)
	})
	return list
}

func testCapture(t *testing.T, b *bench) {
	b.put()
	r, other := b.reservation(1), b.reservation(2)
	b.commit(r, other)
	paid := orders.Payment{Order: r.ID, Reference: "first", Action: orders.ActionNone, Status: orders.StatusPaid}
	b.want(b.capture(r.ID, "first"), paid, "capture")
	b.want(b.capture(r.ID, "first"), paid, "the same again")
	refund := orders.Payment{Order: r.ID, Reference: "second", Action: orders.ActionRefund, Status: orders.StatusPaid}
	for range 2 {
		b.want(b.capture(r.ID, "second"), refund, "a second payment")
	}
	b.want(b.capture(r.ID, "first"), paid, "the first stays what it is")
	for _, reference := range []string{"first", "second"} {
		if _, err := b.Capture(t.Context(), other.ID, reference); !errors.Is(err, orders.ErrConflict) {
			t.Errorf("a reference of another order: %v", err)
		}
	}
	b.want(b.order(other.ID).Status, orders.StatusConfirmed, "the order that the reference does not belong to")
	if _, err := b.Capture(t.Context(), b.reservation(3).ID, "third"); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("unknown order: %v", err)
	}
	b.want(b.capture(other.ID, "third").Action, orders.ActionNone, "with an unknown reference")
	b.want(b.order(r.ID).Units, []int{1}, "units of a paid order")
	owners := b.owners("hat")
	b.want(len(owners), 2, "units sold")
}

// testPay pays orders together.
func testPay(t *testing.T, b *bench) {
	expired, rejected, free := b.noneToPay()
	known, first, second := b.reservation(4), b.reservation(5), b.reservation(6)
	b.commit(known, first, second)
	b.capture(expired.ID, "known")
	before := len(b.events())
	references := map[orders.ID]string{
		expired.ID: "a", rejected.ID: "b", free.ID: "c", b.reservation(9).ID: "d", known.ID: "known", first.ID: "e", second.ID: "f",
	}
	paid, err := b.Pay(t.Context(), references)
	b.must(err)
	slices.SortFunc(paid, func(a, b orders.ID) int { return bytes.Compare(a[:], b[:]) })
	b.want(paid, []orders.ID{first.ID, second.ID}, "paid")
	again, err := b.Pay(t.Context(), references)
	b.must(err)
	b.want(len(again), 0, "paid twice")
	for id, status := range map[orders.ID]orders.Status{
		expired.ID: orders.StatusExpired, rejected.ID: orders.StatusRejected, free.ID: orders.StatusConfirmed, known.ID: orders.StatusConfirmed,
		first.ID: orders.StatusPaid, second.ID: orders.StatusPaid,
	} {
		b.want(b.order(id).Status, status, "status")
	}
	events := b.events()[before:]
	b.want(len(events), 2, "events")
	for _, e := range events {
		b.want(e.Status, orders.StatusPaid, "event")
		b.want(e.Action, orders.ActionNone, "event")
		b.want(e.Reference, references[e.OrderID], "event")
		want := orders.Payment{Order: e.OrderID, Reference: e.Reference, Action: orders.ActionNone, Status: orders.StatusPaid}
		b.want(b.capture(e.OrderID, e.Reference), want, "the same again, alone")
	}
	b.want(b.capture(known.ID, "g").Action, orders.ActionNone, "with an unknown reference")
}

// noneToPay writes an order that has expired, one that was rejected and one that needs no payment, and leaves a sale with time
// to pay.
func (b *bench) noneToPay() (expired, rejected, free orders.Reservation) {
	b.putHeld(time.Millisecond)
	expired, rejected = b.reservation(1), b.reservation(2)
	rejected.Reason = orders.ReasonRecoveredLate
	b.commit(expired, rejected)
	b.expire(1)
	b.putHeld(0)
	free = b.reservation(3)
	b.commit(free)
	b.putHeld(time.Minute)
	return expired, rejected, free
}

// testCaptureTooLate pays orders that no longer wait for payment, or never did.
func testCaptureTooLate(t *testing.T, b *bench) {
	expired, rejected, free := b.noneToPay()
	cancelled := b.reservation(4)
	b.commit(cancelled)
	b.cancel(cancelled.ID)
	for id, status := range map[orders.ID]orders.Status{
		expired.ID: orders.StatusExpired, rejected.ID: orders.StatusRejected,
		free.ID: orders.StatusConfirmed, cancelled.ID: orders.StatusCancelled,
	} {
		want := orders.Payment{Order: id, Reference: id.String(), Action: orders.ActionRefund, Status: status}
		for range 2 {
			b.want(b.capture(id, id.String()), want, "capture of an order that is "+string(status))
		}
		b.want(b.order(id).Status, status, "status")
	}
	refunds := 0
	for _, e := range b.events() {
		if e.Action == orders.ActionRefund {
			refunds++
			b.want(e.Reference, e.OrderID.String(), "reference of a refund")
		}
	}
	b.want(refunds, 4, "events of refunds")
}

func testCancel(t *testing.T, b *bench) {
	b.put()
	r, other := b.reservation(1, 2), b.reservation(3)
	r.KeyHash = "key"
	b.commit(r, other)
	b.raise()
	third := b.reservation(4)
	b.commit(third)
	list, err := b.Cancel(t.Context(), []orders.ID{b.reservation(9).ID, third.ID, r.ID})
	b.must(err)
	b.want(len(list), 2, "orders that ended together")
	ret := list[slices.IndexFunc(list, func(e storage.Return) bool { return e.ID == r.ID })]
	o := b.order(r.ID)
	b.want(o.Status, orders.StatusCancelled, "status")
	b.want(o.Units, []int{1, 2}, "the units that it had")
	want := storage.Return{
		ID: r.ID, Sale: "spring", Item: "hat", Epoch: b.sale.Epoch + 1, BuyerHash: r.BuyerHash,
		Quantity: 2, Units: []int{1, 2}, Status: orders.StatusCancelled,
	}
	b.want(ret, want, "return, in the epoch of the cancellation")
	b.want(b.cancel(r.ID), (*storage.Return)(nil), "return of an order that had ended")
	b.want(b.order(r.ID), o, "cancelled again")
	b.want(b.cancel(other.ID).WithoutKey, true, "an order without a key")
	b.want(b.commit(r)[0].Status, orders.StatusCancelled, "delivered again")
	owners := b.owners("hat")
	b.want(len(owners), 0, "units sold")
	next := b.reservation(2, 3)
	b.want(b.commit(next), []storage.Verdict{confirmed}, "its unit, sold again")
	b.want(b.commit(r)[0].Status, orders.StatusCancelled, "delivered once more")
	b.want(b.order(next.ID).Units, []int{2, 3}, "units of the next buyer")
}

// testCancelTooLate cancels orders that no longer wait for payment, or never did.
func testCancelTooLate(t *testing.T, b *bench) {
	expired, rejected, free := b.noneToPay()
	paid := b.reservation(4)
	b.commit(paid)
	b.capture(paid.ID, "reference")
	for id, status := range map[orders.ID]orders.Status{
		expired.ID: orders.StatusExpired, rejected.ID: orders.StatusRejected, free.ID: orders.StatusConfirmed, paid.ID: orders.StatusPaid,
	} {
		b.want(b.cancel(id), (*storage.Return)(nil), "return")
		b.want(b.order(id).Status, status, "status")
	}
	owners := b.owners("hat")
	b.want(owners, map[int]orders.ID{3: free.ID, 4: paid.ID}, "owners")
}

// testIdentityAfterTheEnd: a buyer without a key may order again; a key belongs to its order for good.
func testIdentityAfterTheEnd(t *testing.T, b *bench) {
	b.put()
	plain, keyed := b.reservation(1), b.reservation(2)
	keyed.KeyHash = "key"
	b.commit(plain, keyed)
	b.cancel(plain.ID)
	b.cancel(keyed.ID)
	held := make(map[orders.ID]storage.Holding)
	b.must(b.Holdings(t.Context(), "spring", func(h storage.Holding) error {
		held[h.ID] = h
		return nil
	}))
	if h, ok := held[keyed.ID]; len(held) != 1 || !ok || len(h.Units) > 0 || h.Status.OwnsUnits() || h.KeyHash == nil || *h.KeyHash != "key" {
		t.Errorf("holdings %+v, want the key of the cancelled order and nothing else", held)
	}
	again, twice := b.reservation(3), b.reservation(4)
	again.BuyerHash = plain.BuyerHash
	twice.BuyerHash, twice.KeyHash = keyed.BuyerHash, keyed.KeyHash
	b.want(b.commit(again, twice), []storage.Verdict{confirmed, {Status: orders.StatusRejected, Reason: orders.ReasonDuplicate}},
		"the same buyers again")
}

func testExpire(t *testing.T, b *bench) {
	b.putHeld(time.Millisecond)
	var placed []orders.ID
	for i := range 4 {
		r := b.reservation(i + 1)
		b.commit(r)
		placed = append(placed, r.ID)
		now := time.Now().UnixMilli()
		b.eventually("the clock moves on", func() bool { return time.Now().UnixMilli() > now })
	}
	b.capture(placed[1], "in time")
	b.putHeld(time.Hour)
	waiting := b.reservation(5)
	b.commit(waiting)
	b.eventually("all are due", func() bool { // the second is paid, the last not due
		o := b.order(placed[3])
		return time.Now().After(o.PayBefore.Add(10 * time.Millisecond))
	})
	first, err := b.Expire(t.Context(), 2)
	b.must(err)
	rest, err := b.Expire(t.Context(), 2)
	b.must(err)
	none, err := b.Expire(t.Context(), 2)
	b.must(err)
	ids := func(list []storage.Return) (ids []orders.ID) {
		for _, r := range list {
			b.want(r.Status, orders.StatusExpired, "status of the return")
			ids = append(ids, r.ID)
		}
		slices.SortFunc(ids, func(x, y orders.ID) int { return slices.Compare(x[:], y[:]) })
		return ids
	}
	b.want(ids(first), []orders.ID{placed[0], placed[2]}, "those due first, at most two")
	b.want(ids(rest), placed[3:], "the rest")
	b.want(len(none), 0, "nothing is left")
	for id, status := range map[orders.ID]orders.Status{
		placed[0]: orders.StatusExpired, placed[1]: orders.StatusPaid, placed[3]: orders.StatusExpired, waiting.ID: orders.StatusConfirmed,
	} {
		b.want(b.order(id).Status, status, "status")
	}
}

func testNextExpiry(t *testing.T, b *bench) {
	next := func(most time.Duration) time.Duration {
		t.Helper()
		wait, err := b.NextExpiry(t.Context(), most)
		b.must(err)
		return wait
	}
	b.want(next(time.Hour), time.Hour, "nothing to expire")
	b.putHeld(0)
	b.commit(b.reservation(1))
	b.want(next(time.Hour), time.Hour, "an order that needs no payment")
	b.putHeld(time.Minute)
	r := b.reservation(2)
	b.commit(r)
	b.want(next(time.Second), time.Second, "later than that")
	if wait := next(time.Hour); wait <= 0 || wait > time.Minute {
		t.Errorf("%v for an order that has a minute", wait)
	}
	b.cancel(r.ID)
	b.want(next(time.Hour), time.Hour, "without it")
	b.putHeld(time.Millisecond)
	b.commit(b.reservation(3))
	b.eventually("it is due", func() bool { return next(time.Hour) == 0 })
	b.expire(1)
	b.want(next(time.Hour), time.Hour, "when it has expired")
}
