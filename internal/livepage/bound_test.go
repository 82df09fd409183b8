package livepage

import (
	"fmt"
	"slices"
	"testing"
)

// Of many semaphores those are listed where something happens.
func TestSemaphoresWhereOneWaitsAreFirst(t *testing.T) {
	asked := make([]Semaphore, 100)
	for i := range asked {
		asked[i] = Semaphore{Name: fmt.Sprintf("s%03d", i), Limit: 4}
	}
	asked[50].InUse, asked[60].InUse, asked[70].InUse, asked[70].Waiting, asked[80].InUse = 1, 4, 4, 9, 4
	semaphores := asked
	frame := Frame{Semaphores: &Part[[]Semaphore]{Value: &semaphores}}
	frame.bound()
	var names []string
	for _, s := range semaphores[:5] {
		names = append(names, s.Name)
	}
	if want := []string{"s070", "s060", "s080", "s050", "s000"}; !slices.Equal(names, want) || frame.MoreSemaphores != 100-mostSemaphores {
		t.Errorf("%v, want %v; and %d more", names, want, frame.MoreSemaphores)
	}
	if asked[0].Name != "s000" {
		t.Error("what was answered has changed")
	}
}

// Of many items those are listed that are being sold, in the order of their sale, and all are summed up.
func TestItemsThatAreSoldAreListed(t *testing.T) {
	const items = 1000
	asked := make([]Item, items)
	for i := range asked {
		asked[i] = Item{Item: fmt.Sprintf("i%03d", i), Stock: 10, Free: new(10)}
	}
	for i := range mostItems { // sold out long ago
		asked[i].Free = new(0)
	}
	asked[900].Free, asked[500].Free = new(1), new(9)
	sales := []Sale{{Sale: "flash", Items: asked}}
	list := func() Sale {
		listed := slices.Clone(sales)
		frame := Frame{Sales: &Part[[]Sale]{Value: &listed}}
		frame.bound()
		return listed[0]
	}
	s := list()
	names := []string{}
	for _, it := range s.Items {
		names = append(names, it.Item)
	}
	if want := []string{"i010", "i011", "i012", "i013", "i014", "i015", "i016", "i017", "i500", "i900"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if s.MoreItems != items-mostItems || s.InAll.Stock != 10*items || *s.InAll.Free != 10*(items-mostItems)-10 {
		t.Errorf("%d more, %+v", s.MoreItems, s.InAll)
	}
	asked[999].Free = nil
	if s = list(); s.InAll.Free != nil {
		t.Error("of one nobody knows how many are left, so neither of all")
	}
	sales[0].Items = asked[:mostItems]
	if s = list(); s.InAll != nil || s.MoreItems != 0 {
		t.Error("all are listed, and need no sum")
	}
}
