package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/orders"
)

func testLead(t *testing.T, b *bench) {
	led, err := b.Lead(t.Context(), "spring", func(ctx context.Context) error {
		other, err := b.Lead(ctx, "spring", func(context.Context) error { t.Error("two leaders"); return nil })
		b.want(other, false, "second leader")
		b.must(err)
		other, err = b.Lead(ctx, "autumn", func(context.Context) error { return nil })
		b.want(other, true, "leader of another sale")
		return err
	})
	b.must(err)
	b.want(led, true, "led")
	broken := errors.New("broken")
	if _, err := b.Lead(t.Context(), "spring", func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error of the leader: %v", err)
	}
	led, err = b.Lead(t.Context(), "spring", func(context.Context) error { return nil })
	b.must(err)
	b.want(led, true, "a leader that failed leads no more")
}

// testStale goes through a recovery: while it begins, what was reserved before
// is still committed; from the end of the hand-over on it is not.
func testStale(t *testing.T, b *bench) {
	b.put()
	before, after, above := b.reservation(1), b.reservation(2), b.reservation(3)
	b.must(b.RaiseEpoch(t.Context(), "spring"))
	above.Epoch += 2
	b.want(b.commit(before, above), []orders.Verdict{confirmed, {Stale: true}}, "during the hand-over")
	if err := b.EndHandOver(t.Context(), "spring", b.sale.Epoch); !errors.Is(err, orders.ErrConflict) {
		t.Errorf("end of a hand-over that is over: %v", err)
	}
	if err := b.EndHandOver(t.Context(), "spring", b.sale.Epoch+2); !errors.Is(err, orders.ErrConflict) {
		t.Errorf("end of a hand-over that nobody began: %v", err)
	}
	b.want(b.commit(before), []orders.Verdict{repeated}, "the hand-over goes on")
	b.must(b.EndHandOver(t.Context(), "spring", b.sale.Epoch+1))
	b.want(b.commit(after), []orders.Verdict{{Stale: true}}, "after it")
	if _, err := b.Order(t.Context(), after.ID); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("an order of the old epoch was written: %v", err)
	}
	after.Epoch++
	b.want(b.commit(after), []orders.Verdict{confirmed}, "in the new epoch")
	all, err := b.Sales(t.Context())
	b.must(err)
	b.want([]int64{all[0].Epoch, all[0].EpochFloor}, []int64{b.sale.Epoch + 1, b.sale.Epoch + 1}, "epoch and floor")
	if all[0].Revision <= b.sale.Revision {
		t.Errorf("revision %d, before %d", all[0].Revision, b.sale.Revision)
	}
}

// testEpochFence commits and ends a hand-over at once: from the first order
// that comes too late on, all do.
func testEpochFence(t *testing.T, b *bench) {
	b.put()
	b.must(b.RaiseEpoch(t.Context(), "spring"))
	batch := make([]orders.Reservation, 40)
	for i := range batch {
		batch[i] = b.reservation(i + 1)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.EndHandOver(t.Context(), "spring", b.sale.Epoch+1); err != nil {
			t.Error(err)
		}
	})
	stale := false
	for i := range batch {
		v := b.commit(batch[i])[0]
		if stale && !v.Stale {
			t.Fatal("an order was committed under an epoch that was over")
		}
		stale = v.Stale
	}
	wg.Wait()
	late := b.reservation(90)
	b.want(b.commit(late)[0].Stale, true, "after the hand-over")
}

// testAcknowledged asks only those who beat lately, and of them everybody.
func testAcknowledged(t *testing.T, b *bench) {
	b.put()
	epoch := b.sale.Epoch + 1
	first, second := uuid.NewString(), uuid.NewString()
	want := func(all bool, silence time.Duration, when string) {
		t.Helper()
		got, err := b.Acknowledged(t.Context(), "spring", epoch, silence)
		b.must(err)
		b.want(got, all, when)
	}
	want(true, time.Hour, "nobody lives")
	b.must(b.Beat(t.Context(), first))
	b.must(b.Beat(t.Context(), first))
	want(false, time.Hour, "one lives")
	want(true, 0, "and was not heard of lately")
	b.must(b.Acknowledge(t.Context(), "autumn", epoch, first))
	b.must(b.Acknowledge(t.Context(), "spring", epoch-1, first))
	b.must(b.Acknowledge(t.Context(), "spring", epoch+1, first))
	want(false, time.Hour, "acknowledged another sale and other epochs")
	for range 2 {
		b.must(b.Acknowledge(t.Context(), "spring", epoch, first))
	}
	want(true, time.Hour, "acknowledged")
	b.must(b.Beat(t.Context(), second))
	want(false, time.Hour, "another one came")
	b.must(b.Leave(t.Context(), second))
	b.must(b.Leave(t.Context(), second))
	want(true, time.Hour, "and left")
}

func testHoldings(t *testing.T, b *bench) {
	b.put()
	key, none := "key", ""
	keyed, plain, rejected, dead := b.reservation(1, 2), b.reservation(3), b.reservation(4), b.reservation(5)
	keyed.KeyHash, rejected.Reason = key, orders.ReasonRecoveredLate
	b.commit(keyed, plain, rejected)
	b.must(b.Bury(t.Context(), dead, "refused"))
	got := make(map[orders.ID]orders.Holding)
	b.must(b.Holdings(t.Context(), "spring", func(h orders.Holding) error {
		slices.Sort(h.Units)
		got[h.ID] = h
		return nil
	}))
	b.want(got, map[orders.ID]orders.Holding{
		keyed.ID: {ID: keyed.ID, Item: "hat", BuyerHash: keyed.BuyerHash, KeyHash: &key, Quantity: 2, Status: orders.StatusConfirmed, Units: []int{1, 2}},
		plain.ID: {ID: plain.ID, Item: "hat", BuyerHash: plain.BuyerHash, KeyHash: &none, Quantity: 1, Status: orders.StatusConfirmed, Units: []int{3}},
		dead.ID:  {ID: dead.ID, Item: "hat", BuyerHash: dead.BuyerHash, KeyHash: &none, Quantity: 1, Status: orders.StatusAccepted, Units: []int{5}},
	}, "holdings")
	broken := errors.New("broken")
	if err := b.Holdings(t.Context(), "spring", func(orders.Holding) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error of the reader: %v", err)
	}
}

func testOwners(t *testing.T, b *bench) {
	b.put()
	first, second := b.reservation(1, 2), b.reservation(3, 4)
	b.commit(first, second)
	owners, err := b.Owners(t.Context(), "spring", "hat")
	b.must(err)
	b.want(owners, map[int]orders.ID{1: first.ID, 2: first.ID, 3: second.ID, 4: second.ID}, "owners")
	owners, err = b.Owners(t.Context(), "spring", "shoe")
	b.must(err)
	b.want(len(owners), 0, "owners of another item")
}
