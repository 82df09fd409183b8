package orders

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/orders/internal/inspection"
)

// verifiedItem holds what Redis, and the database before and after it, returned for one item.
type verifiedItem struct {
	item            *Item
	stock, next     int
	returned        []string
	records         []string
	outbox, pending int
	owners          map[int]ID     // of order_units
	holdings        []Holding      // orders that hold units or a key, and dead letters
	coming          map[ID]*Return // units being returned: listed in the database before or after Redis was read
	kept            []ID           // orders in coming that had not returned their units when Redis was read
	entries         map[string]buyerEntry
	keys            map[string]string // order ids, by buyer and key
	counts          unitCounts
}

// unitCounts counts units by location.
type unitCounts struct{ stock, free, reserved, sold, coming, dead int }

func (p *unitCounts) add(q unitCounts) {
	p.stock += q.stock
	p.free += q.free
	p.reserved += q.reserved
	p.sold += q.sold
	p.coming += q.coming
	p.dead += q.dead
}

// examine returns every inconsistency for the item, and counts the units.
func (b *verifiedItem) examine() []inspection.Breach {
	var found []inspection.Breach
	report := func(invariant, format string, args ...any) {
		found = append(found, inspection.Breach{Invariant: invariant, What: b.item.ID + ": " + fmt.Sprintf(format, args...)})
	}
	b.counts = unitCounts{stock: b.stock, free: b.stock - b.next + len(b.returned), sold: len(b.owners)}
	where := make(map[int][]string, b.next)
	put := func(unit int, place string) { where[unit] = append(where[unit], place) }
	for _, text := range b.returned {
		d := decoder{reply: []any{text}}
		put(int(d.int64()), "free")
	}
	live := make(map[ID]Holding, len(b.records)+len(b.holdings))
	for _, record := range b.records {
		r, err := ParseReservation([]byte(record))
		if err != nil {
			report("I1", "a reservation cannot be read: %.80s", record)
			continue
		}
		live[r.ID] = Holding{ID: r.ID, BuyerHash: r.BuyerHash, KeyHash: &r.KeyHash, Quantity: r.Quantity}
		if b.coming[r.ID] != nil {
			continue // committed and ended; Redis has neither update yet
		}
		for _, u := range r.Units {
			// A committed order that is still in the outbox appears in both places.
			if b.owners[u] != r.ID {
				put(u, "reserved by "+r.ID.String())
				b.counts.reserved++
			}
		}
	}
	held := make(map[string]int)
	seated := make(map[int]struct{}, len(b.owners))
	for _, h := range b.holdings {
		b.checkKey(&h, report)
		if !h.Status.OwnsUnits() {
			continue
		}
		live[h.ID] = h
		held[h.BuyerHash] += h.Quantity
		if len(h.Units) != h.Quantity {
			report("I5", "order %s of %d units has %d", h.ID, h.Quantity, len(h.Units))
		}
		for _, u := range h.Units {
			if h.Status == StatusAccepted {
				put(u, "in dead letter "+h.ID.String())
				b.counts.dead++
			} else if b.owners[u] == h.ID {
				seated[u] = struct{}{}
			} else {
				report("I5", "order %s does not own its unit %d", h.ID, u)
			}
		}
	}
	for u, id := range b.owners {
		put(u, "sold to "+id.String())
		if _, ok := seated[u]; !ok {
			report("I5", "unit %d is owned by order %s, which does not hold it", u, id)
		}
	}
	b.checkReturns(where, report)
	b.checkBuyers(live, report)
	for u := 1; u <= b.next; u++ {
		switch places := where[u]; {
		case len(places) == 0:
			report("I6", "unit %d was handed out and is nowhere", u)
		case len(places) > 1:
			slices.Sort(places)
			report("I5", "unit %d is %s", u, strings.Join(places, " and "))
		}
		delete(where, u)
	}
	for u := range where {
		report("I6", "unit %d is in use and was never handed out", u)
	}
	if b.next > b.stock || len(b.owners) > b.stock {
		report("I3", "%d units handed out and %d sold of %d", b.next, len(b.owners), b.stock)
	}
	for _, n := range held {
		if n > b.item.HighestQuota {
			report("I4", "a buyer holds %d units, and the quota never was above %d", n, b.item.HighestQuota)
		}
	}
	if b.outbox != b.pending {
		report("I1", "%d outbox entries for %d reservations", b.outbox, b.pending)
	}
	return found
}

// checkReturns adds the units that are being returned to where. Units that an order has already returned may belong to any other order
// by now.
func (b *verifiedItem) checkReturns(where map[int][]string, report func(invariant, format string, args ...any)) {
	for _, id := range b.kept {
		for _, u := range b.coming[id].Units {
			b.counts.coming++
			if len(where[u]) > 0 {
				report("I10", "unit %d is %s, and order %s has not given it back yet", u, strings.Join(where[u], " and "), id)
				continue
			}
			where[u] = []string{"on its way back from " + id.String()}
		}
	}
	for id, r := range b.coming {
		for _, u := range r.Units {
			if len(where[u]) == 0 { // the order ended after Redis was read
				where[u] = []string{"on its way back from " + id.String()}
				b.counts.coming++
			}
		}
	}
}

// checkKey checks that an order's key leads to the order. Redis does not have the keys of some orders that were rejected in a
// recovery.
func (b *verifiedItem) checkKey(h *Holding, report func(invariant, format string, args ...any)) {
	if h.KeyHash == nil || h.Status == StatusRejected {
		return
	}
	switch id := b.keys[h.BuyerHash+*h.KeyHash]; {
	case id == "":
		report("I7", "the key of order %s is not known", h.ID)
	case id != h.ID.String() && h.Status != StatusAccepted: // a dead letter may have a twin
		report("I7", "the key of order %s is order %s's", h.ID, id)
	}
}

// checkBuyers compares the buyers' entries with their live orders.
func (b *verifiedItem) checkBuyers(live map[ID]Holding, report func(invariant, format string, args ...any)) {
	quantity := make(map[string]int, len(live)) // of the orders that a buyer's entry may count
	for id, r := range b.coming {
		quantity[id.String()] = r.Quantity
	}
	for id, h := range live {
		quantity[id.String()] = h.Quantity
		if b.coming[id] == nil && !slices.Contains(strings.Fields(b.entries[h.BuyerHash].ids), id.String()) {
			report("I4", "order %s does not count towards its buyer's quota", id)
		}
	}
	for buyer, m := range b.entries {
		sum, known := 0, true
		for _, id := range strings.Fields(m.ids) {
			n, ok := quantity[id]
			if !ok {
				report("I4", "order %s holds nothing, and counts towards the quota of buyer %s", id, buyer)
				known = false
			}
			sum += n
		}
		if known && m.units != sum {
			report("I4", "buyer %s is counted to hold %d units, and has %d", buyer, m.units, sum)
		}
	}
}
