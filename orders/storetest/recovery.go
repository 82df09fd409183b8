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
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
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

// testStale goes through a recovery: until the end of the hand-over, reservations of the earlier epoch are still committed;
// after it they are not.
func testStale(t *testing.T, b *bench) {
	b.put()
	before, after, above := b.reservation(1), b.reservation(2), b.reservation(3)
	lead := b.raise()
	if err := b.RaiseEpoch(t.Context(), b.sale.Epoch, storage.Lead{Sale: "spring", Epoch: b.sale.Epoch + 5, Token: "late"}); !errors.Is(err,
		orders.ErrConflict) {
		t.Errorf("a raise from an epoch that is over: %v", err)
	}
	above.Epoch += 2
	b.want(b.commit(before, above), []storage.Verdict{confirmed, {Stale: true}}, "during the hand-over")
	for what, other := range map[string]storage.Lead{
		"that is over":          {Sale: "spring", Epoch: b.sale.Epoch, Token: lead.Token},
		"that was never begun":  {Sale: "spring", Epoch: b.sale.Epoch + 2, Token: lead.Token},
		"of another leader":     {Sale: "spring", Epoch: lead.Epoch, Token: "other"},
		"of a sale of no epoch": {Sale: "autumn", Epoch: lead.Epoch, Token: lead.Token},
	} {
		if err := b.EndHandOver(t.Context(), other, nil); !errors.Is(err, orders.ErrConflict) {
			t.Errorf("end of a hand-over %s: %v", what, err)
		}
	}
	b.want(b.commit(before), []storage.Verdict{repeated}, "the hand-over goes on")
	b.must(b.EndHandOver(t.Context(), lead, nil))
	b.want(b.commit(after), []storage.Verdict{{Stale: true}}, "after it")
	if o, ok := b.find(after.ID); ok {
		t.Errorf("an order of the old epoch was written: %v", o)
	}
	after.Epoch++
	b.want(b.commit(after), []storage.Verdict{confirmed}, "in the new epoch")
	all, err := b.all()
	b.must(err)
	b.want([]int64{all[0].Epoch, all[0].EpochFloor}, []int64{b.sale.Epoch + 1, b.sale.Epoch + 1}, "epoch and floor")
	b.want(all[0].EpochToken, lead.Token, "token")
	if all[0].Revision <= b.sale.Revision {
		t.Errorf("revision %d, before %d", all[0].Revision, b.sale.Revision)
	}
}

// testEpochWaits commits while a hand-over ends: after the first order that is stale, all are.
func testEpochWaits(t *testing.T, b *bench) {
	b.put()
	lead := b.raise()
	batch := make([]orders.Reservation, 40)
	for i := range batch {
		batch[i] = b.reservation(i + 1)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.EndHandOver(t.Context(), lead, nil); err != nil {
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

// raise begins the epoch after the sale's.
func (b *bench) raise() storage.Lead {
	b.t.Helper()
	lead := storage.Lead{Sale: "spring", Epoch: b.sale.Epoch + 1, Token: uuid.NewString()}
	b.must(b.RaiseEpoch(b.t.Context(), b.sale.Epoch, lead))
	return lead
}

// testRoll follows two processes: their heartbeats, their acknowledgements, and how they leave.
func testRoll(t *testing.T, b *bench) {
	b.put()
	lead := b.raise()
	first, second := uuid.NewString(), uuid.NewString()
	beat := func(process string) {
		t.Helper()
		_, err := b.Heartbeat(t.Context(), liveness.Self{Process: process, Host: "here", Program: "api"})
		b.must(err)
	}
	list := func() map[string]liveness.Member {
		t.Helper()
		r, err := b.HandOver(t.Context(), lead)
		b.must(err)
		members := make(map[string]liveness.Member)
		for _, m := range r.Members {
			members[m.Process] = m
		}
		return members
	}
	b.want(len(list()), 0, "no live process")
	beat(first)
	one := list()[first]
	b.want(list()[first], one, "the pulse stands still without a heartbeat")
	beat(first)
	if again := list()[first]; again.Pulse == one.Pulse || again.Acknowledged {
		t.Errorf("after a heartbeat %+v, before it %+v", again, one)
	}
	beat(second)
	r, err := b.Heartbeat(t.Context(), liveness.Self{Process: second})
	b.must(err)
	if off := time.Since(r.Clock).Abs(); off > time.Minute {
		t.Errorf("the database's clock is off by %v", off)
	}
	if one.Host != "here" || one.Program != "api" {
		t.Errorf("%+v does not say who it is", one)
	}
	b.want(len(r.Members), 2, "a heartbeat returns all processes")
	b.must(b.Acknowledge(t.Context(), "autumn", lead.Epoch, first, nil))
	b.must(b.Acknowledge(t.Context(), "spring", lead.Epoch-1, first, nil))
	b.must(b.Acknowledge(t.Context(), "spring", lead.Epoch+1, first, nil))
	b.want(list()[first].Acknowledged, false, "another sale and other epochs")
	for range 2 {
		b.must(b.Acknowledge(t.Context(), "spring", lead.Epoch, first, nil))
	}
	b.want([]bool{list()[first].Acknowledged, list()[second].Acknowledged}, []bool{true, false}, "acknowledged")
	if _, err := b.HandOver(t.Context(), storage.Lead{Sale: "spring", Epoch: lead.Epoch, Token: "other"}); !errors.Is(err,
		orders.ErrConflict) {
		t.Errorf("the hand-over of another leader: %v", err)
	}
	b.must(b.Leave(t.Context(), second))
	b.must(b.Leave(t.Context(), second))
	if _, there := list()[second]; there {
		t.Error("a process is on the process list that has left")
	}
}

// testLate stores late orders until they are deleted.
func testLate(t *testing.T, b *bench) {
	b.put()
	first, second := b.reservation(1, 2), b.reservation(3)
	late := func() []orders.Reservation {
		t.Helper()
		list, err := b.Late(t.Context(), "spring")
		b.must(err)
		return list
	}
	b.want(len(late()), 0, "nothing is late")
	b.must(b.Acknowledge(t.Context(), "spring", 2, uuid.NewString(), []orders.Reservation{first}))
	b.must(b.Acknowledge(t.Context(), "spring", 2, uuid.NewString(), []orders.Reservation{first, second}))
	b.want(late(), []orders.Reservation{first, second}, "late")
	b.must(b.DeleteLate(t.Context(), []orders.ID{first.ID}))
	b.want(late(), []orders.Reservation{second}, "one is again")
	b.must(b.DeleteLate(t.Context(), nil))
	b.must(b.DeleteLate(t.Context(), []orders.ID{first.ID, second.ID}))
	b.want(len(late()), 0, "all are again")
}

// testNewest finds the newest event, and detects one that is gone.
func testNewest(t *testing.T, b *bench) {
	b.put()
	newest := func(seen storage.LastEvent, there bool) storage.LastEvent {
		t.Helper()
		last, is, err := b.Newest(t.Context(), seen)
		b.must(err)
		b.want(is, there, "an event that was seen")
		return last
	}
	b.want(newest(storage.LastEvent{}, true), storage.LastEvent{}, "no event")
	first, second := b.reservation(1), b.reservation(2)
	newest(storage.LastEvent{Seq: 1, Order: first.ID}, false)
	b.commit(first)
	last := newest(storage.LastEvent{}, true)
	b.want(last.Order, first.ID, "newest")
	b.commit(second)
	if next := newest(last, true); next.Seq <= last.Seq || next.Order != second.ID {
		t.Errorf("%+v behind %+v", next, last)
	}
	newest(storage.LastEvent{Seq: last.Seq, Order: second.ID}, false) // the number was assigned again
	newest(storage.LastEvent{Seq: last.Seq + 1000, Order: first.ID}, false)
}

func testHoldings(t *testing.T, b *bench) {
	b.put()
	key, none := "key", ""
	keyed, plain, rejected, dead := b.reservation(1, 2), b.reservation(3), b.reservation(4), b.reservation(5)
	keyed.KeyHash, rejected.Reason = key, orders.ReasonRecoveredLate
	b.commit(keyed, plain, rejected)
	b.must(b.AddDeadLetter(t.Context(), dead, "refused"))
	got := make(map[orders.ID]storage.Holding)
	b.must(b.Holdings(t.Context(), "spring", func(h storage.Holding) error {
		slices.Sort(h.Units)
		got[h.ID] = h
		return nil
	}))
	b.want(got, map[orders.ID]storage.Holding{
		keyed.ID: {
			ID: keyed.ID, Item: "hat", BuyerHash: keyed.BuyerHash, KeyHash: &key, Quantity: 2, Status: orders.StatusConfirmed,
			Units: []int{1, 2},
		},
		plain.ID: {
			ID: plain.ID, Item: "hat", BuyerHash: plain.BuyerHash, KeyHash: &none, Quantity: 1, Status: orders.StatusConfirmed,
			Units: []int{3},
		},
		dead.ID: {
			ID: dead.ID, Item: "hat", BuyerHash: dead.BuyerHash, KeyHash: &none, Quantity: 1, Status: orders.StatusAccepted,
			Units: []int{5},
		},
	}, "holdings")
	broken := errors.New("broken")
	if err := b.Holdings(t.Context(), "spring", func(storage.Holding) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error of the reader: %v", err)
	}
}

func testOwners(t *testing.T, b *bench) {
	b.put()
	first, second := b.reservation(1, 2), b.reservation(3, 4)
	b.commit(first, second)
	owners := b.owners("hat")
	b.want(owners, map[int]orders.ID{1: first.ID, 2: first.ID, 3: second.ID, 4: second.ID}, "owners")
	owners = b.owners("shoe")
	b.want(len(owners), 0, "owners of another item")
}
