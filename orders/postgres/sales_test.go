package postgres_test

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/postgres"
)

// Postgres computes the fingerprint as package orders does, in the same order of names: otherwise every look would list all sales.
func TestFingerprintOfTheSales(t *testing.T) {
	pool := open(t)
	store := postgres.New(pool)
	_, err := pool.Exec(t.Context(), `ALTER TABLE sales ALTER COLUMN sale TYPE text COLLATE "en-x-icu"`) // another order than that of bytes
	must(t, err)
	for _, id := range []string{"b", "B", "a.b", "a-b", "a_b", "ab", "a", "10", "9"} {
		_, _, _, err := store.PutSale(t.Context(), orders.Sale{
			ID: id, StartsAt: time.Now(), EndsAt: time.Now().Add(time.Hour), Items: []orders.Item{{ID: "shoe", Stock: 1, QuotaPerBuyer: 1, InFlightMax: 1}},
		})
		must(t, err)
		must(t, store.RaiseEpoch(t.Context(), 1, storage.Lead{Sale: id, Epoch: 2, Token: "token of " + id}))
	}
	all, err := store.Differing(t.Context(), storage.NewKnownSales(nil))
	must(t, err)
	sales, err := store.Sales(t.Context(), all)
	must(t, err)
	var versions []storage.SaleVersion
	for _, s := range sales {
		versions = append(versions, storage.SaleVersion{Sale: s.ID, Revision: s.Revision, EpochToken: s.EpochToken})
	}
	// Only the fingerprint: if Postgres had another one, all sales would differ.
	known := &storage.KnownSales{Fingerprint: storage.NewKnownSales(versions).Fingerprint}
	if names, err := store.Differing(t.Context(), known); err != nil || len(names) > 0 || len(versions) != 9 {
		t.Errorf("%d sales: %v, %v", len(versions), names, err)
	}
}
