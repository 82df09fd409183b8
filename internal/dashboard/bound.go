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
	if part := frame.Sales; part != nil {
		part.Value = slices.Clone(part.Value)
		slices.SortStableFunc(part.Value, func(a, b Sale) int { return compareSales(&a, &b) })
		part.Value, frame.MoreSales = first(part.Value, mostSales)
		for i := range part.Value {
			s := &part.Value[i]
			s.Items, s.MoreItems = first(slices.Clone(s.Items), mostItems)
		}
	}
	if part := frame.Semaphores; part != nil {
		part.Value, frame.MoreSemaphores = first(slices.Clone(part.Value), mostSemaphores)
		for i := range part.Value {
			s := &part.Value[i]
			s.Holders, _ = first(slices.Clone(s.Holders), mostHolders)
			for j := range s.Holders {
				s.Holders[j].Holder = short(s.Holders[j].Holder, mostName)
			}
		}
	}
	if part := frame.Queue; part != nil {
		var more int
		part.Value.Dead, more = first(slices.Clone(part.Value.Dead), mostDead)
		part.Value.MoreDead = part.Value.MoreDead || more > 0
		for i := range part.Value.Dead {
			part.Value.Dead[i].Reason = short(part.Value.Dead[i].Reason, mostReason)
		}
	}
	if part := frame.Bans; part != nil {
		part.Value.Bans, _ = first(slices.Clone(part.Value.Bans), mostBans)
		for i := range part.Value.Bans {
			part.Value.Bans[i].Reason = short(part.Value.Bans[i].Reason, mostReason)
		}
	}
}

func first[T any](all []T, most int) (some []T, more int) {
	if len(all) <= most {
		return all, 0
	}
	return all[:most], len(all) - most
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
