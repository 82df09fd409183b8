package dashboard

import (
	"cmp"
	"slices"
	"strings"
)

// Most of what a frame lists of one kind. Whatever there is, a frame stays as small as a page can show.
const (
	mostSales      = 20
	mostItems      = 10 // of a sale
	mostSemaphores = 30
	mostHolders    = 20 // of a semaphore
	mostRules      = 50
	mostBans       = 100
	mostDead       = 20
	mostDegraded   = 10
)

// bound leaves the first out of each kind in a frame, and tells how many more there are. What it lists belongs to the frame.
func (frame *Frame) bound() {
	p := &frame.Process
	p.Degraded, _ = first(p.Degraded, mostDegraded)
	frame.Rules, frame.MoreRules = first(frame.Rules, mostRules)
	if sales := frame.Sales.Known(); sales != nil {
		sorted := slices.Clone(*sales)
		slices.SortStableFunc(sorted, func(a, b Sale) int { return compareSales(&a, &b) })
		*sales, frame.MoreSales = first(sorted, mostSales)
		for i := range *sales {
			s := &(*sales)[i]
			s.Items, s.MoreItems = first(s.Items, mostItems)
		}
	}
	if semaphores := frame.Semaphores.Known(); semaphores != nil {
		*semaphores, frame.MoreSemaphores = first(*semaphores, mostSemaphores)
		for i := range *semaphores {
			s := &(*semaphores)[i]
			s.Holders, _ = first(s.Holders, mostHolders)
			for j := range s.Holders {
				s.Holders[j].Holder = short(s.Holders[j].Holder, mostName)
			}
		}
	}
	if queue := frame.Queue.Known(); queue != nil {
		var more int
		queue.Dead, more = first(queue.Dead, mostDead)
		queue.MoreDead = queue.MoreDead || more > 0
		for i := range queue.Dead {
			queue.Dead[i].Reason = short(queue.Dead[i].Reason, mostReason)
		}
	}
	if bans := frame.Bans.Known(); bans != nil {
		bans.Bans, _ = first(bans.Bans, mostBans)
		for i := range bans.Bans {
			bans.Bans[i].Reason = short(bans.Bans[i].Reason, mostReason)
		}
	}
}

// first copies the first of all, and is never nil, which JavaScript would not take for a list.
func first[T any](all []T, most int) (some []T, more int) {
	n := min(len(all), most)
	return append(make([]T, 0, n), all[:n]...), len(all) - n
}

// compareSales puts what goes on, the latest first, before what is to come, the next one first, and that before what is over, the latest first.
func compareSales(a, b *Sale) int {
	phase := func(s *Sale) int {
		switch s.State {
		case "scheduled":
			return 1
		case "ended", "closed":
			return 2
		}
		return 0
	}
	at := phase(a)
	if order := cmp.Compare(at, phase(b)); order != 0 {
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
