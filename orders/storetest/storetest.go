// Package storetest is the specification of storage.Store, as tests that every
// store passes.
package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
)

// Run tests the store that open returns for each test, with an empty schema. refuse makes the database refuse every order of a
// buyer.
func Run(t *testing.T, open func(t *testing.T) (store storage.Store, refuse func(buyer string))) {
	tests := map[string]func(*testing.T, *bench){
		"sales":                   testSales,
		"sales that differ":       testDiffering,
		"sales contradict":        testConflicts,
		"the key of order ids":    testIDKey,
		"switch":                  testSwitch,
		"waiting room":            testRoom,
		"latest and unpaid":       testLatest,
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
		"epoch waits for commits": testEpochWaits,
		"who is alive":            testRoll,
		"late orders":             testLate,
		"newest event":            testNewest,
		"capture":                 testCapture,
		"pay":                     testPay,
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
		"totals":                  testTotals,
		"holdings":                testHoldings,
		"owners":                  testOwners,
		"dead letter, then order": testDeadLetterThatWasCommitted,
		"sales long over":         testForgottenSales,
		"quota ever":              testQuotaEver,
		"installation":            testInstallation,
		"prove":                   testProve,
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
	storage.Store
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

// all returns all sales.
func (b *bench) all() ([]orders.Sale, error) {
	names, err := b.Differing(b.t.Context(), storage.NewKnownSales(nil))
	if err != nil {
		return nil, err
	}
	return b.Sales(b.t.Context(), names)
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

// owners returns the owners of the units of an item.
func (b *bench) owners(item string) map[int]orders.ID {
	b.t.Helper()
	list := make(map[int]orders.ID)
	b.must(b.Owners(b.t.Context(), "spring", []string{item}, func(_ string, unit int, owner orders.ID) { list[unit] = owner }))
	return list
}

// reservation returns a reservation of units of a hat, by a new buyer, without a key.
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

func (b *bench) commit(batch ...orders.Reservation) []storage.Verdict {
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
	o, ok := b.find(id)
	if !ok {
		b.t.Fatalf("order %s is unknown", id)
	}
	return o
}

// find looks for an order together with one that does not exist.
func (b *bench) find(id orders.ID) (o orders.Order, ok bool) {
	b.t.Helper()
	found, err := b.Committed(b.t.Context(), []orders.ID{b.reservation(999).ID, id})
	b.must(err)
	if o, ok = found[id]; len(found) > 1 || ok != (len(found) == 1) {
		b.t.Fatalf("found %v", found)
	}
	return o, ok
}

var (
	confirmed = storage.Verdict{Status: orders.StatusConfirmed}
	repeated  = storage.Verdict{Status: orders.StatusConfirmed, Repeated: true}
)
