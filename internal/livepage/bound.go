package livepage

import (
	"cmp"
	"slices"
	"strings"
)

// first copies the first elements of all. It never returns nil, which JSON encodes as null.
func first[T any](all []T, most int) (some []T, more int) {
	n := min(len(all), most)
	return append(make([]T, 0, n), all[:n]...), len(all) - n
}

// bound drops the least active items and sets their sum. The remaining ones keep their order, so that they do not move on the page.
func (s *Sale) bound() {
	all := s.Items
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	if len(all) > mostItems {
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(all[i].activityRank(), all[j].activityRank()) })
	}
	order, s.MoreItems = first(order, mostItems)
	slices.Sort(order)
	s.Items = make([]Item, len(order))
	for i, at := range order {
		s.Items[i] = all[at]
	}
	if s.MoreItems > 0 {
		s.InAll = sum(all)
	}
}

// activityRank sorts active items first: from 0 to 1 it is the share of the stock that is left, 1 if nothing was sold yet, 2 if
// nothing is left, 3 if that is unknown.
func (it *Item) activityRank() float64 {
	switch {
	case it.Free == nil:
		return 3
	case *it.Free == 0 || it.Stock == 0:
		return 2
	}
	return min(1, float64(*it.Free)/float64(it.Stock))
}

func sum(items []Item) *Sum {
	s, free := &Sum{}, 0
	s.Free = &free
	for i := range items {
		s.Stock += items[i].Stock
		if items[i].Free == nil {
			s.Free = nil
		} else {
			free += *items[i].Free
		}
	}
	return s
}

// compareSemaphores sorts by the number of waiters, then by the share held, highest first.
func compareSemaphores(a, b Semaphore) int {
	share := func(s *Semaphore) float64 { return gaugeOf(s.InUse, s.Limit).share() }
	return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(share(&b), share(&a)), strings.Compare(a.Name, b.Name))
}

// compareRooms sorts rooms that have ended last, and of the others those where more wait first.
func compareRooms(a, b Room) int {
	ended := func(r *Room) int {
		if r.Phase == "closed" || r.Phase == "exhausted" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(ended(&a), ended(&b)), cmp.Compare(b.Waiting, a.Waiting), b.StartsAt.Compare(a.StartsAt),
		strings.Compare(a.Room, b.Room))
}

// CompareSales sorts running sales before future ones before ended ones: running and ended ones latest first, future ones soonest first.
func CompareSales(a, b Sale) int {
	phase := func(s *Sale) int {
		switch s.State {
		case "scheduled":
			return 1
		case "ended", "closed":
			return 2
		}
		return 0
	}
	at := phase(&a)
	if order := cmp.Compare(at, phase(&b)); order != 0 {
		return order
	}
	order := 0
	switch at {
	case 0:
		order = b.StartsAt.Compare(a.StartsAt)
	case 1:
		order = a.StartsAt.Compare(b.StartsAt)
	case 2:
		order = b.EndsAt.Compare(a.EndsAt)
	}
	return cmp.Or(order, strings.Compare(a.Sale, b.Sale))
}
