// Package storetest is the specification of orders.Store, as tests that every
// store passes.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/tidegate/tidegate/orders"
)

// Run tests the store that open returns for each test, with an empty schema.
// refuse makes the database refuse every order of that buyer.
func Run(t *testing.T, open func(t *testing.T) (store orders.Store, refuse func(buyer string))) {
	tests := map[string]func(*testing.T, *bench){
		"sales":                   testSales,
		"sales contradict":        testConflicts,
		"switch":                  testSwitch,
		"sales put at once":       testConcurrentPut,
		"one leader":              testLead,
		"commit":                  testCommit,
		"commit again":            testCommitAgain,
		"commit earlier epochs":   testStale,
		"commit a taken unit":     testTaken,
		"commit a held key":       testDuplicate,
		"commit a rejection":      testRejection,
		"commit at once":          testConcurrentCommit,
		"poison":                  testPoison,
		"epoch waits for commits": testEpochFence,
		"who is alive":            testAcknowledged,
		"capture":                 testCapture,
		"capture what ended":      testCaptureTooLate,
		"cancel":                  testCancel,
		"cancel what ended":       testCancelTooLate,
		"cancel, and order again": testIdentityAfterTheEnd,
		"expire":                  testExpire,
		"next expiry":             testNextExpiry,
		"one end":                 testOneEnd,
		"returns":                 testReturns,
		"events":                  testEvents,
		"dead letters":            testDeadLetters,
		"dead letters in lists":   testListsWithDeadLetters,
		"lists":                   testLists,
		"holdings":                testHoldings,
		"owners":                  testOwners,
		"dead letter, then order": testDeadLetterThatWasCommitted,
		"sales long over":         testForgottenSales,
		"quota ever":              testQuotaEver,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store, refuse := open(t)
			test(t, &bench{t: t, Store: store, refuse: refuse})
		})
	}
}

type bench struct {
	t *testing.T
	orders.Store
	refuse func(buyer string)
	sale   orders.Sale
	placed int
}

func definition() orders.Sale {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return orders.Sale{
		ID: "spring", StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour), RequiresUser: true, Hold: time.Minute,
		Items: []orders.Item{
			{ID: "hat", Stock: 100, QuotaPerBuyer: 2, InFlightMax: 10},
			{ID: "shoe", Stock: 5, QuotaPerBuyer: 1, InFlightMax: 10},
		},
	}
}

func (b *bench) put() {
	b.t.Helper()
	sale, _, _, err := b.PutSale(b.t.Context(), definition())
	b.must(err)
	b.sale = sale
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) want(got, want any, what string) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// reservation of units of a hat, by a buyer of its own, without a key.
func (b *bench) reservation(units ...int) orders.Reservation {
	b.placed++
	buyer := fmt.Sprintf("buyer-%03d", b.placed)
	id, err := uuid.NewRandom()
	b.must(err)
	id[0], id[6] = byte(b.placed), id[6]&0xf|0x80
	return orders.Reservation{
		ID: orders.ID(id), Epoch: b.sale.Epoch, Sale: b.sale.ID, Item: "hat", Buyer: buyer, BuyerHash: "hash-of-" + buyer,
		Quantity: len(units), Units: units, AcceptedMS: time.Now().UnixMilli(),
	}
}

func (b *bench) commit(batch ...orders.Reservation) []orders.Verdict {
	b.t.Helper()
	verdicts, err := b.Commit(b.t.Context(), batch)
	b.must(err)
	if len(verdicts) != len(batch) {
		b.t.Fatalf("%d verdicts for %d reservations", len(verdicts), len(batch))
	}
	return verdicts
}

func (b *bench) order(id orders.ID) orders.Order {
	b.t.Helper()
	o, err := b.Order(b.t.Context(), id)
	b.must(err)
	return o
}

var confirmed = orders.Verdict{Status: orders.StatusConfirmed}

func testSales(t *testing.T, b *bench) {
	def := definition()
	sale, created, added, err := b.PutSale(t.Context(), def)
	b.must(err)
	b.want(created, true, "created")
	b.want(added, []string{"hat", "shoe"}, "added")
	b.want(sale.Switch, orders.SwitchDraft, "switch")
	if sale.Epoch != 1 || len(sale.Salt) < 16 || sale.Revision == 0 || sale.Items[0].Number == sale.Items[1].Number {
		t.Fatalf("new sale %+v", sale)
	}
	again, created, added, err := b.PutSale(t.Context(), def)
	b.must(err)
	b.want(again, sale, "the same definition changes nothing")
	b.want(created || len(added) > 0, false, "created again")

	def.Items[1].Stock, def.Items[1].QuotaPerBuyer, def.EndsAt, def.Hold = 9, 3, def.EndsAt.Add(time.Hour), 0
	def.Items = append(def.Items, orders.Item{ID: "belt", Stock: 1, QuotaPerBuyer: 1, InFlightMax: 1})
	grown, _, added, err := b.PutSale(t.Context(), def)
	b.must(err)
	b.want(added, []string{"belt"}, "added")
	if grown.Revision <= sale.Revision || grown.Epoch != sale.Epoch || !slices.Equal(grown.Salt, sale.Salt) {
		t.Fatalf("changed sale %+v, before %+v", grown, sale)
	}
	all, err := b.Sales(t.Context())
	b.must(err)
	b.want(all, []orders.Sale{grown}, "sales")
}

func testConflicts(t *testing.T, b *bench) {
	b.put()
	for what, change := range map[string]func(*orders.Sale){
		"a stock that shrinks": func(s *orders.Sale) { s.Items[0].Stock-- },
		"an item dropped":      func(s *orders.Sale) { s.Items = s.Items[1:] },
	} {
		def := definition()
		change(&def)
		if _, _, _, err := b.PutSale(t.Context(), def); !errors.Is(err, orders.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	all, err := b.Sales(t.Context())
	b.must(err)
	b.want(all, []orders.Sale{b.sale}, "a conflict changes nothing")
}

func testSwitch(t *testing.T, b *bench) {
	if err := b.SetSwitch(t.Context(), "spring", orders.SwitchOpen); !errors.Is(err, orders.ErrUnknownSale) {
		t.Fatalf("unknown sale: %v", err)
	}
	b.put()
	last := b.sale.Revision
	for _, to := range []orders.Switch{orders.SwitchOpen, orders.SwitchPaused, orders.SwitchOpen, orders.SwitchClosed} {
		b.must(b.SetSwitch(t.Context(), "spring", to))
		all, err := b.Sales(t.Context())
		b.must(err)
		if all[0].Switch != to || all[0].Revision <= last {
			t.Fatalf("switch %s, revision %d after %d; want %s", all[0].Switch, all[0].Revision, last, to)
		}
		last = all[0].Revision
	}
	if err := b.SetSwitch(t.Context(), "spring", orders.SwitchOpen); !errors.Is(err, orders.ErrConflict) {
		t.Errorf("closed is final: %v", err)
	}
	def := b.sale // by value: the definition as it stands
	if _, _, _, err := b.PutSale(t.Context(), def); err != nil {
		t.Errorf("the same definition changes nothing: %v", err)
	}
	def.Hold += time.Second
	if _, _, _, err := b.PutSale(t.Context(), def); !errors.Is(err, orders.ErrConflict) {
		t.Errorf("closed is final for definitions: %v", err)
	}
	b.must(b.SetSwitch(t.Context(), "spring", orders.SwitchClosed))
}

func testConcurrentPut(t *testing.T, b *bench) {
	var wg sync.WaitGroup
	results := make([]orders.Sale, 8)
	creations := make([]bool, 8)
	def := definition()
	for i := range results {
		wg.Go(func() {
			var err error
			if results[i], creations[i], _, err = b.PutSale(t.Context(), def); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	count := 0
	for i := range results {
		b.want(results[i], results[0], "every caller gets the same sale")
		if creations[i] {
			count++
		}
	}
	b.want(count, 1, "callers that created it")
}

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

func testCommit(t *testing.T, b *bench) {
	b.put()
	first, second := b.reservation(1, 2), b.reservation(3)
	before := time.Now().Add(-time.Second)
	b.want(b.commit(second, first), []orders.Verdict{confirmed, confirmed}, "verdicts")
	o := b.order(first.ID)
	if o.ConfirmedAt.Before(before) || o.PayBefore.Sub(o.ConfirmedAt) != time.Minute {
		t.Errorf("confirmed at %v, to be paid before %v", o.ConfirmedAt, o.PayBefore)
	}
	o.ConfirmedAt, o.PayBefore = time.Time{}, time.Time{}
	b.want(o, orders.Order{
		ID: first.ID, Status: orders.StatusConfirmed, Sale: "spring", Item: "hat", Buyer: first.Buyer, Quantity: 2,
		Units: []int{1, 2}, AcceptedAt: time.UnixMilli(first.AcceptedMS).UTC(),
	}, "order")
	if _, err := b.Order(t.Context(), b.reservation(9).ID); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("unknown order: %v", err)
	}
}

func testCommitAgain(_ *testing.T, b *bench) {
	b.put()
	r := b.reservation(1)
	for _, v := range b.commit(r, r) {
		b.want(v.Status, orders.StatusConfirmed, "twice in one batch")
	}
	b.want(b.commit(r), []orders.Verdict{confirmed}, "in a further batch")
	b.want(b.order(r.ID).Units, []int{1}, "units")
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
	b.want(b.commit(before), []orders.Verdict{confirmed}, "the hand-over goes on")
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

func testTaken(t *testing.T, b *bench) {
	b.put()
	first, second, third := b.reservation(1, 2), b.reservation(2, 3), b.reservation(4)
	b.commit(first)
	b.want(b.commit(second, third), []orders.Verdict{{Taken: []int{2}}, confirmed}, "verdicts")
	if _, err := b.Order(t.Context(), second.ID); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("an order without all its units was written: %v", err)
	}
	second.Units = []int{5, 3}
	b.want(b.commit(second), []orders.Verdict{confirmed}, "on other units, the third not having been kept")
	b.want(b.order(first.ID).Units, []int{1, 2}, "the owner keeps its units")
}

func testDuplicate(_ *testing.T, b *bench) {
	b.put()
	first, second := b.reservation(1), b.reservation(2)
	second.BuyerHash = first.BuyerHash
	b.commit(first)
	rejected := orders.Verdict{Status: orders.StatusRejected, Reason: orders.ReasonDuplicate}
	b.want(b.commit(second), []orders.Verdict{rejected}, "verdict")
	o := b.order(second.ID)
	b.want(o.Reason, orders.ReasonDuplicate, "reason")
	b.want(len(o.Units), 0, "units")
	third := b.reservation(2)
	b.want(b.commit(third), []orders.Verdict{confirmed}, "its unit is free")
	other := b.reservation(3)
	other.BuyerHash, other.KeyHash = first.BuyerHash, "key"
	b.want(b.commit(other), []orders.Verdict{confirmed}, "the same buyer with a key")
}

func testRejection(t *testing.T, b *bench) {
	b.put()
	r := b.reservation(1)
	r.KeyHash, r.Reason = "key", orders.ReasonRecoveredLate
	b.must(b.RaiseEpoch(t.Context(), "spring"))
	b.want(b.commit(r), []orders.Verdict{{Status: orders.StatusRejected, Reason: orders.ReasonRecoveredLate}}, "verdict, in whatever epoch")
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
	owners, err := b.Owners(t.Context(), "spring", "hat")
	b.must(err)
	b.want(len(owners), 60, "units sold")
}

func testPoison(t *testing.T, b *bench) {
	b.put()
	good, bad := b.reservation(1), b.reservation(2)
	b.refuse(bad.Buyer)
	if _, err := b.Commit(t.Context(), []orders.Reservation{good, bad}); !errors.Is(err, orders.ErrPoison) {
		t.Fatalf("error %v, want ErrPoison", err)
	}
	if _, err := b.Order(t.Context(), good.ID); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("half a batch was written: %v", err)
	}
	b.want(b.commit(good), []orders.Verdict{confirmed}, "without it")
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

func testDeadLetters(t *testing.T, b *bench) {
	b.put()
	r := b.reservation(1)
	r.KeyHash = "key"
	b.must(b.Bury(t.Context(), r, "refused"))
	b.must(b.Bury(t.Context(), r, "refused again"))
	b.want(b.order(r.ID).Status, orders.StatusAccepted, "status of a dead letter")
	found, err := b.Statuses(t.Context(), []orders.ID{r.ID, b.reservation(2).ID})
	b.must(err)
	b.want(found, map[orders.ID]orders.Status{r.ID: orders.StatusAccepted}, "statuses")

	d, err := b.DeadLetter(t.Context(), r.ID)
	b.must(err)
	b.want(d.Reservation, r, "its reservation")
	b.want(d.Reason, "refused", "its reason")
	if since := time.Since(d.At); since < 0 || since > time.Minute {
		t.Errorf("buried %v ago", since)
	}
	if _, err := b.DeadLetter(t.Context(), b.reservation(3).ID); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("a dead letter that is none: %v", err)
	}
	second, stored := b.reservation(4), b.reservation(5)
	for _, r := range []orders.Reservation{second, stored} {
		b.must(b.Bury(t.Context(), r, "refused"))
	}
	b.commit(stored) // after all
	list := func(after orders.ID, limit int) (ids []orders.ID) {
		t.Helper()
		letters, err := b.DeadLetters(t.Context(), after, limit)
		b.must(err)
		for i := range letters {
			ids = append(ids, letters[i].Reservation.ID)
		}
		return ids
	}
	b.want(list(orders.ID{}, 10), []orders.ID{r.ID, second.ID}, "dead letters, without what has an order by now")
	b.want(list(orders.ID{}, 1), []orders.ID{r.ID}, "a page")
	b.want(list(r.ID, 10), []orders.ID{second.ID}, "the next page")
	for range 2 {
		b.must(b.Exhume(t.Context(), r.ID, nil))
	}
	b.want(list(orders.ID{}, 10), []orders.ID{second.ID}, "without the one that was exhumed")
	if _, err := b.Order(t.Context(), r.ID); !errors.Is(err, orders.ErrUnknownOrder) {
		t.Errorf("a dead letter that was exhumed: %v", err)
	}
}

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
		filter orders.Filter
		want   []orders.ID
	}{
		"all":      {orders.Filter{Sale: "spring", Limit: 10}, all},
		"a page":   {orders.Filter{Sale: "spring", Limit: 2, After: all[0]}, all[1:3]},
		"a buyer":  {orders.Filter{Sale: "spring", Limit: 10, BuyerHash: "hash-of-buyer-002"}, all[1:2]},
		"a status": {orders.Filter{Sale: "spring", Limit: 10, Status: orders.StatusRejected}, all[4:]},
		"no sale":  {orders.Filter{Sale: "autumn", Limit: 10}, nil},
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

// A dead letter whose task was delivered once more, and committed, is an order.
func testDeadLetterThatWasCommitted(t *testing.T, b *bench) {
	b.put()
	r := b.reservation(1)
	b.must(b.Bury(t.Context(), r, "refused"))
	b.commit(r)
	count := 0
	b.must(b.Holdings(t.Context(), "spring", func(h orders.Holding) error {
		count++
		b.want(h.Status, orders.StatusConfirmed, "status")
		return nil
	}))
	b.want(count, 1, "holdings")
}

func testForgottenSales(t *testing.T, b *bench) {
	b.put()
	def := definition()
	def.ID, def.StartsAt, def.EndsAt = "long-ago", time.Now().AddDate(-3, 0, 0), time.Now().AddDate(-2, 0, 0)
	_, _, _, err := b.PutSale(t.Context(), def)
	b.must(err)
	all, err := b.Sales(t.Context())
	b.must(err)
	b.want(len(all), 1, "sales that are not long over")
}

func testQuotaEver(t *testing.T, b *bench) {
	b.put()
	def := definition()
	for _, quota := range []int{5, 1} {
		def.Items[0].QuotaPerBuyer = quota
		_, _, _, err := b.PutSale(t.Context(), def)
		b.must(err)
	}
	all, err := b.Sales(t.Context())
	b.must(err)
	b.want([]int{all[0].Items[0].QuotaPerBuyer, all[0].Items[0].QuotaEver}, []int{1, 5}, "quota now and ever")
}
