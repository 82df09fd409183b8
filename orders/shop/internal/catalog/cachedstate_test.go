package catalog

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/core"
)

// A restored database may give an item's number to an item of another sale: its callers must not join those of the former one.
func TestCachedStateBelongsToTheItemsKeys(t *testing.T) {
	co := &core.Core{Namespace: "tidegate"}
	sale := func(id string, stock int) []orders.Sale {
		return []orders.Sale{{ID: id, Epoch: 1, Items: []orders.Item{{ID: "i", Number: 7, Stock: stock}}}}
	}
	names := []string{"a", "b"}
	before := newCatalog(map[string]*Listing{}, map[int]*Item{}).with(co, names, sale("a", 1))
	if same := before.with(co, names, sale("a", 2)); same.ByNumber[7].itemState != before.ByNumber[7].itemState {
		t.Error("a new definition of an item loses its state")
	}
	if other := before.with(co, names, sale("b", 1)); other.ByNumber[7].itemState == before.ByNumber[7].itemState {
		t.Error("an item of another sale has the state of the former owner of its number")
	}
}
