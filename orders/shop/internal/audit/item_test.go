package audit

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/inspection"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/shop/internal/catalog"
)

// verifiedParts is what Redis and the database have of an item.
type verifiedParts struct {
	item            *orders.Item
	stock, next     int
	returned        []string
	records         []string
	outbox, pending int
	owners          map[int]orders.ID
	holdings        []storage.Holding
	coming          map[orders.ID]*storage.Return // in the database before Redis was read
	later           map[orders.ID]*storage.Return // in the database after Redis was read
	kept            []orders.ID
	entries         map[string]catalog.BuyerEntry
	keys            map[string]string
}

// compare takes a look at the parts.
func (v *verifiedParts) compare(s *sieve) []inspection.Breach {
	b := newVerifiedItem(v.item, s, v.coming)
	b.stock, b.next, b.returned, b.outbox, b.pending = v.stock, v.next, len(v.returned), v.outbox, v.pending
	b.kept = v.kept
	for _, record := range v.records {
		b.addRecord(record)
	}
	for _, unit := range v.returned {
		b.addReturned(unit)
	}
	for buyer, entry := range v.entries {
		b.addEntry(buyer, strconv.Itoa(entry.Units)+" "+entry.IDs)
	}
	for u, id := range v.owners {
		b.addOwner(u, id)
	}
	for i := range v.holdings {
		h := &v.holdings[i]
		b.addHolding(h)
		if hasKey(h) {
			b.addKey(h, v.keys[h.BuyerHash+*h.KeyHash])
		}
	}
	maps.Copy(b.coming, v.later)
	return b.examine()
}

// test compares sums and then rows, as Verify does, and expects breaches of invariants.
func (v *verifiedParts) test(t *testing.T, name, want string) {
	t.Helper()
	s := &sieve{units: newSlots(v.stock), buyers: newSlots(v.stock)}
	found := v.compare(s)
	differ := s.choose()
	switch {
	case want != "" && len(found) == 0 && !differ:
		t.Errorf("%s: the sums are equal", name)
	case want == "" && v.later == nil && (len(found) > 0 || differ):
		t.Errorf("%s: %v, or the sums differ", name, found)
	}
	found = v.compare(s)
	got := make([]string, len(found))
	for i := range found {
		got[i] = found[i].Invariant
	}
	slices.Sort(got)
	if strings.Join(got, " ") != want {
		t.Errorf("%s: %v, want %s", name, found, want)
	}
	if v.coming != nil && v.kept == nil { // the orders may just as well have ended while Redis was read
		again := *v
		again.coming, again.later = nil, v.coming
		again.test(t, name+", later", want)
	}
}

// remember adds the entries and keys that match the orders.
func (v *verifiedParts) remember() {
	live := make(map[orders.ID]storage.Holding)
	for _, record := range v.records {
		if r, err := orders.ParseReservation([]byte(record)); err == nil {
			live[r.ID] = storage.HoldingOf(&r)
		}
	}
	for _, h := range v.holdings {
		live[h.ID] = h
	}
	v.entries, v.keys = make(map[string]catalog.BuyerEntry), make(map[string]string)
	for id, h := range live {
		if h.Status.OwnsUnits() {
			m := v.entries[h.BuyerHash]
			v.entries[h.BuyerHash] = catalog.BuyerEntry{Units: m.Units + h.Quantity, IDs: m.IDs + " " + id.String()}
		}
		if h.KeyHash != nil {
			v.keys[h.BuyerHash+*h.KeyHash] = id.String() + " 1"
		}
	}
}

func TestExamineNamesWhatDoesNotAddUp(t *testing.T) {
	a, b, c := newID(time.UnixMilli(1), 1), newID(time.UnixMilli(2), 1), newID(time.UnixMilli(3), 1)
	ended := func(parts *verifiedParts, id orders.ID, unit int) {
		parts.coming, parts.kept = map[orders.ID]*storage.Return{id: {ID: id, Units: []int{unit}}}, []orders.ID{id}
	}
	record := func(id orders.ID, units ...int) string {
		return orders.Reservation{ID: id, Quantity: len(units), Units: units}.Record()
	}
	live := func(id orders.ID, units ...int) storage.Holding {
		return storage.Holding{ID: id, BuyerHash: id.String(), Quantity: len(units), Status: orders.StatusConfirmed, Units: units}
	}
	sound := func() verifiedParts {
		return verifiedParts{
			item: &orders.Item{ID: "shoe", HighestQuota: 1}, stock: 5, next: 4, returned: []string{"2"}, records: []string{record(b, 3)},
			outbox: 1, pending: 1, owners: map[int]orders.ID{1: a},
			holdings: []storage.Holding{live(a, 1), {ID: newID(time.UnixMilli(4), 1), BuyerHash: "dead", Quantity: 1, Status: orders.StatusAccepted, Units: []int{4}}},
		}
	}
	for name, c := range map[string]struct {
		change func(*verifiedParts)
		want   string
	}{
		"sound":                     {func(*verifiedParts) {}, ""},
		"committed, still in Redis": {func(b *verifiedParts) { b.records = append(b.records, record(a, 1)); b.outbox, b.pending = 2, 2 }, ""},
		"a unit lost":               {func(b *verifiedParts) { b.returned = nil }, "I6"},
		"a unit reserved twice": {func(b *verifiedParts) {
			b.records = append(b.records, record(newID(time.UnixMilli(3), 1), 3))
			b.outbox, b.pending = 2, 2
		}, "I5"},
		"a unit sold and reserved": {func(bs *verifiedParts) { bs.records = []string{record(b, 1, 3)} }, "I5"},
		"a unit free and sold":     {func(b *verifiedParts) { b.returned = []string{"1", "2"} }, "I5"},
		"a unit never handed out": {func(b *verifiedParts) {
			b.owners[5], b.holdings[0].Units = a, []int{1, 5}
			b.holdings[0].Quantity, b.item.HighestQuota = 2, 2
		}, "I6"},
		"more sold than there is":     {func(b *verifiedParts) { b.stock = 3 }, "I3"},
		"over the quota":              {func(b *verifiedParts) { b.item.HighestQuota = 0 }, "I4 I4"},
		"fewer units than asked for":  {func(b *verifiedParts) { b.holdings[0].Quantity, b.item.HighestQuota = 2, 2 }, "I5"},
		"an owner that holds nothing": {func(b *verifiedParts) { b.holdings = b.holdings[1:] }, "I5"},
		"an order without its unit":   {func(b *verifiedParts) { b.owners = nil; b.returned = []string{"1", "2"} }, "I5"},
		"an outbox entry lost":        {func(b *verifiedParts) { b.outbox = 0 }, "I1"},
		"a reservation not readable":  {func(b *verifiedParts) { b.records = append(b.records, "?"); b.outbox, b.pending = 2, 2 }, "I1"},
		"on its way back":             {func(bs *verifiedParts) { bs.returned = nil; ended(bs, c, 2) }, ""},
		"on its way back, as it seems": {func(bs *verifiedParts) {
			bs.returned, bs.records = nil, append(bs.records, record(c, 2))
			bs.outbox, bs.pending = 2, 2
			ended(bs, c, 2)
		}, ""},
		"ended after the look at Redis": {func(bs *verifiedParts) { bs.returned = nil; ended(bs, c, 2); bs.kept = nil }, ""},
		"given back, to be forgotten":   {func(bs *verifiedParts) { ended(bs, c, 2); bs.kept = nil }, ""},
		"given back and sold again":     {func(bs *verifiedParts) { ended(bs, c, 1); bs.kept = nil }, ""},
		"free before it came back":      {func(bs *verifiedParts) { ended(bs, c, 2) }, "I10"},
		"sold before it came back":      {func(bs *verifiedParts) { ended(bs, c, 1) }, "I10"},
		"reserved before it came back":  {func(bs *verifiedParts) { ended(bs, c, 3) }, "I10"},
	} {
		parts := sound()
		c.change(&parts)
		parts.remember()
		parts.test(t, name, c.want)
	}
}

func TestExamineComparesWhatRedisRemembers(t *testing.T) {
	id := func(n int64) orders.ID { return newID(time.UnixMilli(n), 1) }
	a, b, pending, over, gone := id(1), id(2), id(3), id(4), id(5)
	key := "key"
	sound := func() verifiedParts {
		parts := verifiedParts{
			item: &orders.Item{ID: "shoe", HighestQuota: 5}, stock: 9, next: 6, returned: []string{"5", "6"},
			records: []string{orders.Reservation{ID: pending, BuyerHash: "bob", KeyHash: key, Quantity: 1, Units: []int{4}}.Record()},
			outbox:  1, pending: 1, owners: map[int]orders.ID{1: a, 2: a, 3: b},
			holdings: []storage.Holding{
				{ID: a, BuyerHash: "ada", KeyHash: &key, Quantity: 2, Status: orders.StatusConfirmed, Units: []int{1, 2}},
				{ID: b, BuyerHash: "bob", KeyHash: new(string), Quantity: 1, Status: orders.StatusPaid, Units: []int{3}},
				{ID: over, BuyerHash: "eve", KeyHash: &key, Quantity: 1, Status: orders.StatusCancelled},
			},
		}
		parts.remember()
		return parts
	}
	back := func(bs *verifiedParts) {
		bs.coming = map[orders.ID]*storage.Return{gone: {ID: gone, BuyerHash: "ada", Quantity: 1, Units: []int{1}}}
	}
	for name, c := range map[string]struct {
		change func(*verifiedParts)
		want   string
	}{
		"sound":                {func(*verifiedParts) {}, ""},
		"no entries":           {func(bs *verifiedParts) { clear(bs.entries) }, "I4 I4 I4"},
		"no mark":              {func(bs *verifiedParts) { delete(bs.entries, "ada") }, "I4"},
		"an order not counted": {func(bs *verifiedParts) { bs.entries["bob"] = catalog.BuyerEntry{Units: 1, IDs: b.String()} }, "I4"},
		"a pending one counts": {func(bs *verifiedParts) { bs.entries["bob"] = catalog.BuyerEntry{Units: 1, IDs: pending.String()} }, "I4"},
		"too few units":        {func(bs *verifiedParts) { bs.entries["ada"] = catalog.BuyerEntry{Units: 1, IDs: a.String()} }, "I4"},
		"too many units":       {func(bs *verifiedParts) { bs.entries["ada"] = catalog.BuyerEntry{Units: 3, IDs: a.String()} }, "I4"},
		"an order of nobody": {func(bs *verifiedParts) {
			bs.entries["ada"] = catalog.BuyerEntry{Units: 3, IDs: a.String() + " " + gone.String()}
		}, "I4"},
		"a buyer without orders": {func(bs *verifiedParts) { bs.entries["eve"] = catalog.BuyerEntry{Units: 1, IDs: over.String()} }, "I4"},
		"somebody else's order":  {func(bs *verifiedParts) { bs.entries["bob"], bs.entries["ada"] = bs.entries["ada"], bs.entries["bob"] }, "I4 I4 I4"},
		"a mark that is none":    {func(bs *verifiedParts) { bs.entries["ada"] = catalog.BuyerEntry{} }, "I4"},
		"ended, not yet told": {func(bs *verifiedParts) {
			bs.entries["ada"] = catalog.BuyerEntry{Units: 3, IDs: a.String() + " " + gone.String()}
			back(bs)
		}, ""},
		"ended, and told":         {back, ""},
		"no keys":                 {func(bs *verifiedParts) { clear(bs.keys) }, "I7 I7 I7"},
		"a key lost":              {func(bs *verifiedParts) { delete(bs.keys, "adakey") }, "I7"},
		"a key lost of one ended": {func(bs *verifiedParts) { delete(bs.keys, "evekey") }, "I7"},
		"a key used twice":        {func(bs *verifiedParts) { bs.keys["bob"] = gone.String() }, "I7"},
		"rejected in a recovery":  {func(bs *verifiedParts) { delete(bs.keys, "evekey"); bs.holdings[2].Status = orders.StatusRejected }, ""},
		"without a key by now":    {func(bs *verifiedParts) { delete(bs.keys, "evekey"); bs.holdings[2].KeyHash = nil }, ""},
	} {
		parts := sound()
		c.change(&parts)
		parts.test(t, name, c.want)
	}
}
