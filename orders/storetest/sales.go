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
	belt := orders.Item{ID: "belt", Stock: 1, QuotaPerBuyer: 1, InFlightMax: 1}
	copied := belt // of another database, which had set these
	copied.Number, copied.HighestQuota, copied.Room = sale.Items[0].Number, 9, "queue"
	def.Items = append(def.Items, copied)
	grown, _, added, err := b.PutSale(t.Context(), def)
	b.must(err)
	b.want(added, []string{"belt"}, "added")
	belt.Number, belt.HighestQuota = grown.Items[2].Number, 1
	b.want(grown.Items[2], belt, "new item")
	b.want(belt.Number > sale.Items[1].Number, true, "a number of its own")
	if grown.Revision <= sale.Revision || grown.Epoch != sale.Epoch || !slices.Equal(grown.Salt, sale.Salt) {
		t.Fatalf("changed sale %+v, before %+v", grown, sale)
	}
	all, err := b.all()
	b.must(err)
	b.want(all, []orders.Sale{grown}, "sales")
}

// testDiffering: every change of a sale makes that sale, and no other, differ from what was known before.
func testDiffering(t *testing.T, b *bench) {
	var known []storage.SaleVersion
	differing := func() []string {
		t.Helper()
		names, err := b.Differing(t.Context(), storage.NewKnownSales(known))
		b.must(err)
		slices.Sort(names)
		return names
	}
	changes := func(what, sale string, change func() error) {
		t.Helper()
		b.must(change())
		b.want(differing(), []string{sale}, what)
		now, err := b.Sales(t.Context(), []string{sale, "no-such-sale"})
		b.must(err)
		b.want(len(now), 1, what)
		known = slices.DeleteFunc(known, func(v storage.SaleVersion) bool { return v.Sale == sale })
		known = append(known, storage.SaleVersion{Sale: sale, Revision: now[0].Revision, EpochToken: now[0].EpochToken})
		b.want(differing(), []string(nil), what+", once it is known")
	}
	b.want(differing(), []string(nil), "an empty database")
	def := definition()
	var lead storage.Lead
	changes("a new sale", def.ID, func() error { b.put(); return nil })
	for _, id := range []string{"Winter", "winter", "a.b", "a-b"} { // databases order them in different ways
		other := definition()
		other.ID = id
		changes("another sale", id, func() error { _, _, _, err := b.PutSale(t.Context(), other); return err })
	}
	def.Items[0].Stock++
	changes("a stock", def.ID, func() error { _, _, _, err := b.PutSale(t.Context(), def); return err })
	changes("the switch", def.ID, func() error { return b.SetSwitch(t.Context(), b.sale.ID, orders.SwitchOpen) })
	changes("a room", def.ID, func() error { return b.SetRoom(t.Context(), b.sale.ID, def.Items[0].ID, "", "queue") })
	changes("the epoch", def.ID, func() error { lead = b.raise(); return nil })
	changes("the floor", def.ID, func() error { return b.EndHandOver(t.Context(), lead, nil) })

	at := slices.IndexFunc(known, func(v storage.SaleVersion) bool { return v.Sale == def.ID })
	for what, change := range map[string]func(v *storage.SaleVersion){
		"a revision that the database lost": func(v *storage.SaleVersion) { v.Revision++ },
		"another leader's epoch":            func(v *storage.SaleVersion) { v.EpochToken = "other" },
	} {
		before := known[at]
		change(&known[at])
		b.want(differing(), []string{def.ID}, what)
		known[at] = before
	}
	known = append(known, storage.SaleVersion{Sale: "gone", Revision: 1})
	b.want(differing(), []string{"gone"}, "a sale that the database lost")
	b.want(storage.NewKnownSales(nil).Fingerprint != storage.NewKnownSales(known).Fingerprint, true, "fingerprints")
}

// testIDKey: the key never changes, and a new database has no plain ids.
func testIDKey(t *testing.T, b *bench) {
	key, err := b.IDKey(t.Context())
	b.must(err)
	if len(key.Key) != 32 {
		t.Errorf("%d bytes", len(key.Key))
	}
	b.put()
	again, err := b.IDKey(t.Context())
	b.must(err)
	b.want(again, key, "the key after a sale was defined")
}

func testConflicts(t *testing.T, b *bench) {
	b.put()
	for what, change := range map[string]func(*orders.Sale){
		"a stock that shrinks": func(s *orders.Sale) { s.Items[0].Stock-- },
		"an item dropped":      func(s *orders.Sale) { s.Items = s.Items[1:] },
		"another revision":     func(s *orders.Sale) { s.Revision, s.Items[0].Stock = b.sale.Revision+1, 100 },
	} {
		def := definition()
		change(&def)
		if _, _, _, err := b.PutSale(t.Context(), def); !errors.Is(err, orders.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	all, err := b.all()
	b.must(err)
	b.want(all, []orders.Sale{b.sale}, "a conflict changes nothing")
	def := definition()
	def.Revision, def.Items[0].Stock = b.sale.Revision, 100
	if changed, _, _, err := b.PutSale(t.Context(), def); err != nil || changed.Items[0].Stock != 100 {
		t.Errorf("of its revision: %v, %+v", err, changed)
	}
}

func testSwitch(t *testing.T, b *bench) {
	if err := b.SetSwitch(t.Context(), "spring", orders.SwitchOpen); !errors.Is(err, orders.ErrUnknownSale) {
		t.Fatalf("unknown sale: %v", err)
	}
	b.put()
	last := b.sale.Revision
	for _, to := range []orders.Switch{orders.SwitchOpen, orders.SwitchPaused, orders.SwitchOpen, orders.SwitchClosed} {
		b.must(b.SetSwitch(t.Context(), "spring", to))
		all, err := b.all()
		b.must(err)
		if all[0].Switch != to || all[0].Revision <= last {
			t.Fatalf("switch %s, revision %d after %d; want %s", all[0].Switch, all[0].Revision, last, to)
		}
		last = all[0].Revision
	}
	if err := b.SetSwitch(t.Context(), "spring", orders.SwitchOpen); !errors.Is(err, orders.ErrConflict) {
		t.Errorf("closed is final: %v", err)
	}
	def := b.sale    // a copy: the current definition
	def.Revision = 0 // of any revision
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

func testForgottenSales(t *testing.T, b *bench) {
	b.put()
	def := definition()
	def.ID, def.StartsAt, def.EndsAt = "long-ago", time.Now().AddDate(-3, 0, 0), time.Now().AddDate(-2, 0, 0)
	_, _, _, err := b.PutSale(t.Context(), def)
	b.must(err)
	all, err := b.all()
	b.must(err)
	b.want(len(all), 1, "sales that are not long over")
	found, err := b.Sales(t.Context(), []string{def.ID})
	b.must(err)
	b.want(len(found), 0, "one that is")
}

func testQuotaEver(t *testing.T, b *bench) {
	b.put()
	def := definition()
	for _, quota := range []int{5, 1} {
		def.Items[0].QuotaPerBuyer = quota
		_, _, _, err := b.PutSale(t.Context(), def)
		b.must(err)
	}
	all, err := b.all()
	b.must(err)
	b.want([]int{all[0].Items[0].QuotaPerBuyer, all[0].Items[0].HighestQuota}, []int{1, 5}, "quota now and ever")
}
