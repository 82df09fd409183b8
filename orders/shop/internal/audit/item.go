package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/inspection"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
)

// verifiedItem compares what Redis, and the database before and after it, have of one item. The add methods take one element at a time;
// only rows are kept.
type verifiedItem struct {
	item *orders.Item
	*sieve
	hash            uint64 // of the item
	stock, next     int
	returned        int
	outbox, pending int
	coming          map[orders.ID]*storage.Return // units being returned: listed in the database before or after Redis was read
	kept            []orders.ID                   // orders in coming that had not returned their units when Redis was read
	records         map[orders.ID]orders.Reservation
	committed       map[orders.ID]struct{}        // records that hold units in the database, too
	recorded        map[int]orders.ID             // the owners of the records' units; the zero ID for none
	owned           int                           // units
	owners          map[int]orders.ID             // of rows
	seated          map[int]struct{}              // rows that belong to the holding that owns them
	where           map[int][]string              // rows, by unit
	live            map[orders.ID]storage.Holding // orders that hold units, of buyers that are rows
	held            map[string]int                // units in the database of buyers that are rows
	entries         map[string]catalog.BuyerEntry // of buyers that are rows
	counts          unitCounts
	found           []inspection.Breach
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

// newVerifiedItem returns an item without elements. The units and the buyers of coming are rows.
func newVerifiedItem(item *orders.Item, s *sieve, coming map[orders.ID]*storage.Return) *verifiedItem {
	b := &verifiedItem{
		item: item, sieve: s, hash: slotHash(s.units, item.ID), coming: make(map[orders.ID]*storage.Return, len(coming)),
		records: make(map[orders.ID]orders.Reservation), committed: make(map[orders.ID]struct{}), recorded: make(map[int]orders.ID),
		owners: make(map[int]orders.ID), seated: make(map[int]struct{}), where: make(map[int][]string),
		live: make(map[orders.ID]storage.Holding), held: make(map[string]int), entries: make(map[string]catalog.BuyerEntry),
	}
	for id, r := range coming {
		b.coming[id] = r
		slot, _ := b.buyer(r.BuyerHash)
		b.buyers.addRow(slot)
		for _, u := range r.Units {
			slot, _ := b.unit(u)
			b.units.addRow(slot)
		}
	}
	return b
}

func (b *verifiedItem) report(invariant, format string, args ...any) {
	b.found = append(b.found, inspection.Breach{Invariant: invariant, What: b.item.ID + ": " + fmt.Sprintf(format, args...)})
}

// unit returns the slot and the hash of a unit. Units that follow each other have slots that do, which the processor's caches like.
func (b *verifiedItem) unit(u int) (slot int, hash uint64) {
	return b.units.of(b.hash + uint64(u)), slotHash(b.units, [2]uint64{b.hash, uint64(u)})
}

// buyer returns the slot and the hash of a buyer.
func (b *verifiedItem) buyer(buyerHash string) (slot int, hash uint64) {
	hash = slotHash(b.buyers, [2]string{b.item.ID, buyerHash})
	return b.buyers.of(hash), hash
}

// isRow reports whether the orders of a buyer are compared one by one.
func (b *verifiedItem) isRow(buyerHash string) bool {
	slot, _ := b.buyer(buyerHash)
	return b.buyers.isRow(slot)
}

// linked is the hash of an order of the buyer, or of the owner of a unit, with that hash.
func linked(s *slots, hash uint64, id orders.ID) uint64 {
	return slotHash(s, struct {
		of uint64
		id orders.ID
	}{hash, id})
}

// weight is the hash of a number of units of the buyer with that hash.
func weight(hash uint64, units int) uint64 { return (hash | 1) * uint64(units) }

// place adds one of the places of a unit, which should be the only one.
func (b *verifiedItem) place(u int, where string, id orders.ID) {
	slot, hash := b.unit(u)
	if !b.units.isRow(slot) {
		b.units.add(slot, hash)
		return
	}
	if id != (orders.ID{}) {
		where += id.String()
	}
	b.where[u] = append(b.where[u], where)
}

// addReturned adds a unit that Redis may hand out again.
func (b *verifiedItem) addReturned(text string) {
	u, _ := strconv.Atoi(text) // an unreadable number counts as 0, which was never handed out
	b.place(u, "free", orders.ID{})
}

// addRecord adds a reservation in Redis.
func (b *verifiedItem) addRecord(record string) {
	r, err := orders.ParseReservation([]byte(record))
	if err != nil {
		b.report("I1", "a reservation cannot be read: %.80s", record)
		return
	}
	b.records[r.ID] = r
	for _, u := range r.Units {
		b.recorded[u] = orders.ID{}
	}
}

// addEntry adds a buyer's entry in Redis.
func (b *verifiedItem) addEntry(buyer, text string) {
	entry := catalog.ParseBuyerEntry(text) // a number that cannot be read counts as 0, which is reported as a mismatch
	slot, hash := b.buyer(buyer)
	if b.buyers.isRow(slot) {
		b.entries[buyer] = entry
		return
	}
	b.buyers.add(slot, weight(hash, entry.Units))
	for text := range strings.FieldsSeq(entry.IDs) {
		id, err := orders.ParseID(text)
		if err != nil {
			b.buyers.differ(slot)
		}
		b.buyers.add(slot, linked(b.buyers, hash, id))
	}
	if entry.Units > b.item.HighestQuota {
		b.buyers.differ(slot)
	}
}

// addOwner adds the owner of a unit in the database. All reservations are added before.
func (b *verifiedItem) addOwner(u int, id orders.ID) {
	b.owned++
	if _, ok := b.recorded[u]; ok {
		b.recorded[u] = id
	}
	b.place(u, "sold to ", id)
	if slot, hash := b.unit(u); b.units.isRow(slot) {
		b.owners[u] = id
	} else {
		b.units.add(slot, linked(b.units, hash, id))
	}
}

// addHolding adds an order that holds units or a key, or a dead letter. All owners are added before.
func (b *verifiedItem) addHolding(h *storage.Holding) {
	if !h.Status.OwnsUnits() {
		return
	}
	if _, ok := b.records[h.ID]; ok {
		b.committed[h.ID] = struct{}{}
	}
	row := b.addLive(h)
	if row {
		b.held[h.BuyerHash] += h.Quantity
	}
	if len(h.Units) != h.Quantity {
		b.reportOf(h.BuyerHash, "I5", "order %s of %d units has %d", h.ID, h.Quantity, len(h.Units))
	}
	for _, u := range h.Units {
		if h.Status == orders.StatusAccepted {
			b.place(u, "in dead letter ", h.ID)
			b.counts.dead++
			continue
		}
		slot, hash := b.unit(u)
		switch {
		case !b.units.isRow(slot):
			b.units.add(slot, -linked(b.units, hash, h.ID))
		case b.owners[u] == h.ID:
			b.seated[u] = struct{}{}
		default:
			b.report("I5", "order %s does not own its unit %d", h.ID, u)
		}
	}
}

// addLive adds an order that counts towards its buyer's quota, and reports whether its buyer is a row.
func (b *verifiedItem) addLive(h *storage.Holding) bool {
	slot, hash := b.buyer(h.BuyerHash)
	if b.buyers.isRow(slot) {
		b.live[h.ID] = *h
		return true
	}
	b.buyers.add(slot, -linked(b.buyers, hash, h.ID)-weight(hash, h.Quantity))
	return false
}

// reportOf reports an inconsistency of a buyer that is a row. Any other buyer becomes one.
func (b *verifiedItem) reportOf(buyerHash, invariant, format string, args ...any) {
	slot, _ := b.buyer(buyerHash)
	if !b.buyers.isRow(slot) {
		b.buyers.differ(slot)
		return
	}
	b.report(invariant, format, args...)
}

// hasKey reports whether Redis should have an order's key. It does not have the keys of some orders that were rejected in a recovery.
func hasKey(h *storage.Holding) bool { return h.KeyHash != nil && h.Status != orders.StatusRejected }

// addKey checks that an order's key leads to the order, given the entry of the key in Redis.
func (b *verifiedItem) addKey(h *storage.Holding, entry string) {
	switch id, _, _ := strings.Cut(entry, " "); {
	case id == "":
		b.reportOf(h.BuyerHash, "I7", "the key of order %s is not known", h.ID)
	case id != h.ID.String() && h.Status != orders.StatusAccepted: // a dead letter may have a twin
		b.reportOf(h.BuyerHash, "I7", "the key of order %s is order %s's", h.ID, id)
	}
}

// examine compares what was added. It returns the inconsistencies, and counts the units.
func (b *verifiedItem) examine() []inspection.Breach {
	b.counts.stock, b.counts.free, b.counts.sold = b.stock, b.stock-b.next+b.returned, b.owned
	b.checkRecords()
	for u, id := range b.owners {
		if _, ok := b.seated[u]; !ok {
			b.report("I5", "unit %d is owned by order %s, which does not hold it", u, id)
		}
	}
	b.checkReturns()
	b.checkBuyers()
	b.checkUnits()
	if b.next > b.stock || b.owned > b.stock {
		b.report("I3", "%d units handed out and %d sold of %d", b.next, b.owned, b.stock)
	}
	for _, n := range b.held {
		if n > b.item.HighestQuota {
			b.report("I4", "a buyer holds %d units, and the quota never was above %d", n, b.item.HighestQuota)
		}
	}
	if b.outbox != b.pending {
		b.report("I1", "%d outbox entries for %d reservations", b.outbox, b.pending)
	}
	return b.found
}

// checkRecords adds the orders and the units of the reservations that are not committed.
func (b *verifiedItem) checkRecords() {
	for id, r := range b.records {
		if _, ok := b.committed[id]; !ok {
			h := storage.HoldingOf(&r)
			b.addLive(&h)
		}
		if b.coming[id] != nil {
			continue // committed and ended; Redis has neither update yet
		}
		for _, u := range r.Units {
			// A committed order that is still in the outbox appears in both places.
			if b.recorded[u] != id {
				b.place(u, "reserved by ", id)
				b.counts.reserved++
			}
		}
	}
}

// checkUnits checks that each unit that was handed out is in one place, and no other unit is.
func (b *verifiedItem) checkUnits() {
	for u := 1; u <= b.next; u++ {
		slot, hash := b.unit(u)
		if !b.units.isRow(slot) {
			b.units.add(slot, -hash)
			continue
		}
		switch places := b.where[u]; {
		case len(places) == 0:
			b.report("I6", "unit %d was handed out and is nowhere", u)
		case len(places) > 1:
			slices.Sort(places)
			b.report("I5", "unit %d is %s", u, strings.Join(places, " and "))
		}
		delete(b.where, u)
	}
	for u := range b.where {
		b.report("I6", "unit %d is in use and was never handed out", u)
	}
}

// checkReturns adds the units that are being returned to where. Units that an order has already returned may belong to any other order
// by now.
func (b *verifiedItem) checkReturns() {
	for _, id := range b.kept {
		for _, u := range b.coming[id].Units {
			b.counts.coming++
			if len(b.where[u]) > 0 {
				b.report("I10", "unit %d is %s, and order %s has not given it back yet", u, strings.Join(b.where[u], " and "), id)
				continue
			}
			b.where[u] = []string{"on its way back from " + id.String()}
		}
	}
	for id, r := range b.coming {
		if slot, _ := b.buyer(r.BuyerHash); !b.buyers.isRow(slot) {
			b.buyers.differ(slot)
		}
		for _, u := range r.Units {
			slot, _ := b.unit(u)
			switch {
			case !b.units.isRow(slot):
				b.units.differ(slot)
			case len(b.where[u]) == 0: // the order ended after Redis was read
				b.where[u] = []string{"on its way back from " + id.String()}
			default:
				continue
			}
			b.counts.coming++
		}
	}
}

// checkBuyers compares the buyers' entries with their live orders.
func (b *verifiedItem) checkBuyers() {
	quantity := make(map[string]int, len(b.live)) // of the orders that a buyer's entry may count
	for id, r := range b.coming {
		quantity[id.String()] = r.Quantity
	}
	for id, h := range b.live {
		quantity[id.String()] = h.Quantity
		if b.coming[id] == nil && !slices.Contains(strings.Fields(b.entries[h.BuyerHash].IDs), id.String()) {
			b.report("I4", "order %s does not count towards its buyer's quota", id)
		}
	}
	for buyer, m := range b.entries {
		sum, known := 0, true
		for id := range strings.FieldsSeq(m.IDs) {
			n, ok := quantity[id]
			if !ok {
				b.report("I4", "order %s holds nothing, and counts towards the quota of buyer %s", id, buyer)
				known = false
			}
			sum += n
		}
		if known && m.Units != sum {
			b.report("I4", "buyer %s is counted to hold %d units, and has %d", buyer, m.Units, sum)
		}
	}
}
