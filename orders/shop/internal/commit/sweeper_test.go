package commit

import (
	"slices"
	"testing"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
)

// Items that had orders are swept again, whichever part of all is due, as they are in the catalog now.
func TestBusyItemsAreSweptAgain(t *testing.T) {
	item := func(number int) *catalog.Item { return &catalog.Item{Item: &orders.Item{Number: number}} }
	all := []*catalog.Item{item(1), item(2), item(3), item(4), item(5)}
	before := slices.Clone(all)
	for name, of := range map[string]struct{ part, busy, want []*catalog.Item }{
		"none":                {all[:2], nil, all[:2]},
		"one of another part": {all[:2], []*catalog.Item{item(4)}, []*catalog.Item{all[0], all[1], all[3]}},
		"one of this part":    {all[:2], []*catalog.Item{item(1)}, all[:2]},
		"one that is gone":    {all[:2], []*catalog.Item{item(9)}, all[:2]},
		"several":             {all[3:], []*catalog.Item{item(5), item(1), item(3)}, []*catalog.Item{all[3], all[4], all[0], all[2]}},
	} {
		if got := withBusy(of.part, all, of.busy); !slices.Equal(got, of.want) {
			t.Errorf("%s: %v, want %v", name, got, of.want)
		}
	}
	if !slices.Equal(all, before) {
		t.Error("the list of all items has changed")
	}
}
