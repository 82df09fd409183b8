package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
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
	def.Items = append(def.Items, orders.Item{ID: "belt", Stock: 1, QuotaPerBuyer: 1, InFlightMax: 1})
	grown, _, added, err := b.PutSale(t.Context(), def)
	b.must(err)
	b.want(added, []string{"belt"}, "added")
	if grown.Revision <= sale.Revision || grown.Epoch != sale.Epoch || !slices.Equal(grown.Salt, sale.Salt) {
		t.Fatalf("changed sale %+v, before %+v", grown, sale)
	}
	all, _, err := b.Sales(t.Context(), "")
	b.must(err)
	b.want(all, []orders.Sale{grown}, "sales")
}

// testVersions: every change of a sale gives the sales another version, and of the version that is known nothing is read.
func testVersions(t *testing.T, b *bench) {
	version := ""
	changes := func(what string, change func() error) {
		t.Helper()
		b.must(change())
		all, now, err := b.Sales(t.Context(), version)
		b.must(err)
		if now == version || len(all) == 0 {
			t.Errorf("%s: %d sales of version %q, known was %q", what, len(all), now, version)
		}
		version = now
		again, same, err := b.Sales(t.Context(), version)
		b.must(err)
		if len(again) > 0 || same != version {
			t.Errorf("%s: %d sales although the version is still %q", what, len(again), same)
		}
		one, err := b.Sale(t.Context(), b.sale.ID)
		b.must(err)
		b.want(one, all[0], what)
	}
	if none, _, err := b.Sales(t.Context(), ""); err != nil || len(none) > 0 {
		t.Errorf("%v, %v in an empty database", none, err)
	}
	if _, err := b.Sale(t.Context(), "spring"); !errors.Is(err, orders.ErrUnknownSale) {
		t.Errorf("an unknown sale: %v", err)
	}
	def := definition()
	var lead orders.Lead
	changes("a new sale", func() error { b.put(); return nil })
	def.Items[0].Stock++
	changes("a stock", func() error { _, _, _, err := b.PutSale(t.Context(), def); return err })
	changes("the switch", func() error { return b.SetSwitch(t.Context(), b.sale.ID, orders.SwitchOpen) })
	changes("a room", func() error { return b.SetRoom(t.Context(), b.sale.ID, def.Items[0].ID, "", "queue") })
	changes("the epoch", func() error { lead = b.raise(); return nil })
	changes("the floor", func() error { return b.EndHandOver(t.Context(), lead, nil) })
	other := definition()
	other.ID = "winter"
	changes("another sale", func() error { _, _, _, err := b.PutSale(t.Context(), other); return err })
}

// testIDKey: the key never changes, and a new database has no plain ids.
func testIDKey(t *testing.T, b *bench) {
	key, err := b.IDKey(t.Context())
	b.must(err)
	if len(key.Key) != 32 || !key.PlainUntil.IsZero() {
		t.Errorf("%d bytes, plain until %v", len(key.Key), key.PlainUntil)
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
	all, _, err := b.Sales(t.Context(), "")
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
		all, _, err := b.Sales(t.Context(), "")
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
	all, _, err := b.Sales(t.Context(), "")
	b.must(err)
	b.want(len(all), 1, "sales that are not long over")
	if _, err := b.Sale(t.Context(), def.ID); !errors.Is(err, orders.ErrUnknownSale) {
		t.Errorf("one that is: %v", err)
	}
}

func testQuotaEver(t *testing.T, b *bench) {
	b.put()
	def := definition()
	for _, quota := range []int{5, 1} {
		def.Items[0].QuotaPerBuyer = quota
		_, _, _, err := b.PutSale(t.Context(), def)
		b.must(err)
	}
	all, _, err := b.Sales(t.Context(), "")
	b.must(err)
	b.want([]int{all[0].Items[0].QuotaPerBuyer, all[0].Items[0].HighestQuota}, []int{1, 5}, "quota now and ever")
}
