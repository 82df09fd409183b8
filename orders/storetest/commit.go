package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

func testCommit(t *testing.T, b *bench) {
	b.put()
	first, second := b.reservation(1, 2), b.reservation(3)
	before := time.Now().Add(-time.Second)
	b.want(b.commit(second, first), []storage.Verdict{confirmed, confirmed}, "verdicts")
	o := b.order(first.ID)
	if o.ConfirmedAt.Before(before) || o.PayBefore.Sub(o.ConfirmedAt) != time.Minute {
		t.Errorf("confirmed at %v, to be paid before %v", o.ConfirmedAt, o.PayBefore)
	}
	o.ConfirmedAt, o.PayBefore = time.Time{}, time.Time{}
	b.want(o, orders.Order{
		ID: first.ID, Status: orders.StatusConfirmed, Sale: "spring", Item: "hat", Buyer: first.Buyer, Quantity: 2,
		Units: []int{1, 2}, AcceptedAt: time.UnixMilli(first.AcceptedMS).UTC(),
	}, "order")
	if o, ok := b.find(b.reservation(9).ID); ok {
		t.Errorf("unknown order: %v", o)
	}
}

func testCommitAgain(_ *testing.T, b *bench) {
	b.put()
	r := b.reservation(1)
	for _, v := range b.commit(r, r) {
		b.want(v.Status, orders.StatusConfirmed, "twice in one batch")
	}
	b.want(b.commit(r), []storage.Verdict{repeated}, "in a further batch")
	b.want(b.order(r.ID).Units, []int{1}, "units")
}

func testTaken(t *testing.T, b *bench) {
	b.put()
	first, second, third := b.reservation(1, 2), b.reservation(2, 3), b.reservation(4)
	b.commit(first)
	b.want(b.commit(second, third), []storage.Verdict{{Taken: []int{2}}, confirmed}, "verdicts")
	if o, ok := b.find(second.ID); ok {
		t.Errorf("an order without all its units was written: %v", o)
	}
	second.Units = []int{5, 3}
	b.want(b.commit(second), []storage.Verdict{confirmed}, "on other units, the third not having been kept")
	b.want(b.order(first.ID).Units, []int{1, 2}, "the owner keeps its units")
	above, unknown := b.reservation(100, 101), b.reservation(6)
	unknown.Item = "belt"
	b.want(b.commit(above, unknown), []storage.Verdict{{Taken: []int{101}}, {Taken: []int{6}}}, "above the stock, or of no item")
}

func testDuplicate(_ *testing.T, b *bench) {
	b.put()
	first, second := b.reservation(1), b.reservation(2)
	second.BuyerHash = first.BuyerHash
	b.commit(first)
	rejected := storage.Verdict{Status: orders.StatusRejected, Reason: orders.ReasonDuplicate}
	b.want(b.commit(second), []storage.Verdict{rejected}, "verdict")
	o := b.order(second.ID)
	b.want(o.Reason, orders.ReasonDuplicate, "reason")
	b.want(len(o.Units), 0, "units")
	third := b.reservation(2)
	b.want(b.commit(third), []storage.Verdict{confirmed}, "its unit is free")
	other := b.reservation(3)
	other.BuyerHash, other.KeyHash = first.BuyerHash, "key"
	b.want(b.commit(other), []storage.Verdict{confirmed}, "the same buyer with a key")
}

func testRejection(t *testing.T, b *bench) {
	b.put()
	r := b.reservation(1)
	r.KeyHash, r.Reason = "key", orders.ReasonRecoveredLate
	lead := b.raise()
	b.must(b.EndHandOver(t.Context(), lead, nil))
	b.want(b.commit(r), []storage.Verdict{{Stale: true}}, "verdict of an epoch that is over")
	r.Epoch++
	b.want(b.commit(r), []storage.Verdict{{Status: orders.StatusRejected, Reason: orders.ReasonRecoveredLate}}, "verdict")
	o := b.order(r.ID)
	if o.Status != orders.StatusRejected || !o.ConfirmedAt.IsZero() || !o.PayBefore.IsZero() || len(o.Units) != 0 {
		t.Errorf("order %+v", o)
	}
}

func testConcurrentCommit(t *testing.T, b *bench) {
	b.put()
	batch := make([]orders.Reservation, 60)
	for i := range batch {
		batch[i] = b.reservation(i + 1)
	}
	var wg sync.WaitGroup
	for worker := range 6 {
		mine := slices.Clone(batch)
		if worker%2 == 1 {
			slices.Reverse(mine)
		}
		wg.Go(func() {
			for part := range slices.Chunk(mine, 20) {
				verdicts, err := b.Commit(t.Context(), part)
				if err != nil {
					t.Error(err)
					return
				}
				for _, v := range verdicts {
					if v.Status != orders.StatusConfirmed {
						t.Errorf("verdict %+v", v)
					}
				}
			}
		})
	}
	wg.Wait()
	owners := b.owners("hat")
	b.want(len(owners), 60, "units sold")
}

func testPoison(t *testing.T, b *bench) {
	b.put()
	good, bad := b.reservation(1), b.reservation(2)
	b.refuse(bad.Buyer)
	if _, err := b.Commit(t.Context(), []orders.Reservation{good, bad}); !errors.Is(err, orders.ErrPoison) {
		t.Fatalf("error %v, want ErrPoison", err)
	}
	if o, ok := b.find(good.ID); ok {
		t.Errorf("half a batch was written: %v", o)
	}
	b.want(b.commit(good), []storage.Verdict{confirmed}, "without it")
}

func testProve(t *testing.T, b *bench) {
	for _, sales := range []string{"no sale", "a sale"} {
		if err := b.Prove(t.Context()); err != nil {
			t.Errorf("with %s: %v", sales, err)
		}
		b.put()
	}
	list, err := b.Orders(t.Context(), storage.Filter{Sale: b.sale.ID, Limit: 10})
	b.must(err)
	b.want(len(list), 0, "orders")
}
