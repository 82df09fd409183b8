package catalog

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// A catalog shares with the former one the sales that did not change, and has no item of a sale that is gone, also if the database has given
// its number again.
func TestCatalogWith(t *testing.T) {
	co := &core.Core{Namespace: "tidegate"}
	sale := func(id string, revision int64, numbers ...int) orders.Sale {
		s := orders.Sale{ID: id, Revision: revision, Epoch: 1}
		for _, n := range numbers {
			s.Items = append(s.Items, orders.Item{ID: fmt.Sprint("item-", n), Number: n})
		}
		return s
	}
	empty := newCatalog(map[string]*Listing{}, map[int]*Item{})
	names := []string{"a", "b", "c", "d"}
	before := empty.with(co, names, []orders.Sale{sale("a", 1, 1), sale("b", 2, 2, 3), sale("c", 3, 4)})
	now := before.with(co, []string{"b", "c", "e"}, []orders.Sale{sale("b", 5, 2), sale("e", 6, 4, 5)})
	if got, want := slices.Sorted(maps.Keys(now.ByNumber)), []int{1, 2, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("items %v, want %v", got, want)
	}
	if now.Sales["a"] != before.Sales["a"] || now.ByNumber[1] != before.ByNumber[1] {
		t.Error("a sale that did not change is not shared")
	}
	if now.ByNumber[2].itemState != before.ByNumber[2].itemState {
		t.Error("the state of an item was lost although its keys are the same")
	}
	if ci := now.ByNumber[4]; ci.Sale.ID != "e" || ci.itemState == before.ByNumber[4].itemState {
		t.Errorf("item 4 is of sale %s, or has the state of another item", ci.Sale.ID)
	}
	// An item that took the number of a gone sale before that was found.
	early := before.with(co, []string{"e"}, []orders.Sale{sale("e", 6, 4)}).with(co, []string{"c"}, nil)
	if ci, ok := early.ByNumber[4]; !ok || ci.Sale.ID != "e" {
		t.Error("the item that took the number is gone as well")
	}
	if got := before.known().Differing([]storage.SaleVersion{{Sale: "a", Revision: 1}, {Sale: "b", Revision: 5}, {Sale: "e", Revision: 6}}); len(got) != 3 {
		t.Errorf("differing %v, want b, c and e", got)
	}
}

// What has changed is compared at once, and everything else in parts.
func TestComparedItems(t *testing.T) {
	co := &core.Core{Namespace: "tidegate"}
	var names []string
	var sales []orders.Sale
	for n := range compareMax*2 + 1 {
		names = append(names, fmt.Sprint("sale-", n))
		sales = append(sales, orders.Sale{ID: names[n], Epoch: 1, Items: []orders.Item{{ID: "shoe", Number: n + 1}}})
	}
	c := newCatalog(map[string]*Listing{}, map[int]*Item{}).with(co, names, sales)
	w := &Watch{Core: co}
	w.Catalog.Store(c)
	items := w.Remembered()
	const generation = 7
	if len(changedSince(c, items, generation)) != 0 {
		t.Error("unchanged items are compared")
	}
	w.Catalog.Store(c.with(co, names[:1], sales[:1]))
	changed := changedSince(c, w.Remembered(), generation)
	if len(changed) != 1 || changed[0].Item.Number != 1 {
		t.Fatalf("%d items, want the one of the sale that was read", len(changed))
	}
	changed[0].generation.Store(generation)
	if len(changedSince(c, w.Remembered(), generation)) != 0 {
		t.Error("an item that was compared is compared again")
	}
	if len(changedSince(c, w.Remembered(), generation+1)) != 1 {
		t.Error("an item of another server is not compared")
	}
	changed[0].revision.Store(-1)
	if len(changedSince(c, w.Remembered(), generation)) != 1 {
		t.Error("an item of another revision is not compared")
	}
	var r Rotation
	seen := make(map[int]bool)
	for _, want := range []int{compareMax, compareMax, 1, compareMax} {
		part := r.Turn(items, compareMax)
		if len(part) != want {
			t.Errorf("a part of %d items, want %d", len(part), want)
		}
		for _, ci := range part {
			seen[ci.Item.Number] = true
		}
	}
	if len(seen) != len(items) {
		t.Errorf("%d of %d items", len(seen), len(items))
	}
	// The first ones leave meanwhile: the part that follows is the same.
	if part := r.Turn(items[50:], 10); part[0] != items[compareMax] || r.Turn(items[:5], 10)[0] != items[0] || len(r.Turn(nil, 10)) != 0 {
		t.Errorf("after some have left: item %d", part[0].Item.Number)
	}
}
