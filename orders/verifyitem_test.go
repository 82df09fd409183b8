package orders

import (
	"strings"
	"testing"
	"time"
)

// remember adds the entries and keys that match the orders.
func remember(b *verifiedItem) {
	live := make(map[ID]Holding)
	for _, record := range b.records {
		if r, err := ParseReservation([]byte(record)); err == nil {
			live[r.ID] = r.Holding()
		}
	}
	for _, h := range b.holdings {
		live[h.ID] = h
	}
	b.entries, b.keys = make(map[string]buyerEntry), make(map[string]string)
	for id, h := range live {
		if h.Status.OwnsUnits() {
			m := b.entries[h.BuyerHash]
			b.entries[h.BuyerHash] = buyerEntry{m.units + h.Quantity, m.ids + " " + id.String()}
		}
		if h.KeyHash != nil {
			b.keys[h.BuyerHash+*h.KeyHash] = id.String()
		}
	}
}

func TestExamineComparesWhatRedisRemembers(t *testing.T) {
	id := func(n int64) ID { return newID(time.UnixMilli(n), 1) }
	a, b, pending, over, gone := id(1), id(2), id(3), id(4), id(5)
	key := "key"
	sound := func() verifiedItem {
		audit := verifiedItem{
			item: &Item{ID: "shoe", HighestQuota: 5}, stock: 9, next: 6, returned: []string{"5", "6"},
			records: []string{Reservation{ID: pending, BuyerHash: "bob", KeyHash: key, Quantity: 1, Units: []int{4}}.record()},
			outbox:  1, pending: 1, owners: map[int]ID{1: a, 2: a, 3: b},
			holdings: []Holding{
				{ID: a, BuyerHash: "ada", KeyHash: &key, Quantity: 2, Status: StatusConfirmed, Units: []int{1, 2}},
				{ID: b, BuyerHash: "bob", KeyHash: new(string), Quantity: 1, Status: StatusPaid, Units: []int{3}},
				{ID: over, BuyerHash: "eve", KeyHash: &key, Quantity: 1, Status: StatusCancelled},
			},
		}
		remember(&audit)
		return audit
	}
	back := func(bs *verifiedItem) {
		bs.coming = map[ID]*Return{gone: {ID: gone, BuyerHash: "ada", Quantity: 1, Units: []int{1}}}
	}
	for name, c := range map[string]struct {
		change func(*verifiedItem)
		want   string
	}{
		"sound":                   {func(*verifiedItem) {}, ""},
		"no entries":              {func(bs *verifiedItem) { clear(bs.entries) }, "I4 I4 I4"},
		"no mark":                 {func(bs *verifiedItem) { delete(bs.entries, "ada") }, "I4"},
		"an order not counted":    {func(bs *verifiedItem) { bs.entries["bob"] = buyerEntry{1, b.String()} }, "I4"},
		"a pending one counts":    {func(bs *verifiedItem) { bs.entries["bob"] = buyerEntry{1, pending.String()} }, "I4"},
		"too few units":           {func(bs *verifiedItem) { bs.entries["ada"] = buyerEntry{1, a.String()} }, "I4"},
		"too many units":          {func(bs *verifiedItem) { bs.entries["ada"] = buyerEntry{3, a.String()} }, "I4"},
		"an order of nobody":      {func(bs *verifiedItem) { bs.entries["ada"] = buyerEntry{3, a.String() + " " + gone.String()} }, "I4"},
		"a buyer without orders":  {func(bs *verifiedItem) { bs.entries["eve"] = buyerEntry{1, over.String()} }, "I4"},
		"somebody else's order":   {func(bs *verifiedItem) { bs.entries["bob"], bs.entries["ada"] = bs.entries["ada"], bs.entries["bob"] }, "I4 I4 I4"},
		"a mark that is none":     {func(bs *verifiedItem) { bs.entries["ada"] = buyerEntry{} }, "I4"},
		"ended, not yet told":     {func(bs *verifiedItem) { bs.entries["ada"] = buyerEntry{3, a.String() + " " + gone.String()}; back(bs) }, ""},
		"ended, and told":         {back, ""},
		"no keys":                 {func(bs *verifiedItem) { clear(bs.keys) }, "I7 I7 I7"},
		"a key lost":              {func(bs *verifiedItem) { delete(bs.keys, "adakey") }, "I7"},
		"a key lost of one ended": {func(bs *verifiedItem) { delete(bs.keys, "evekey") }, "I7"},
		"a key used twice":        {func(bs *verifiedItem) { bs.keys["bob"] = gone.String() }, "I7"},
		"rejected in a recovery":  {func(bs *verifiedItem) { delete(bs.keys, "evekey"); bs.holdings[2].Status = StatusRejected }, ""},
		"without a key by now":    {func(bs *verifiedItem) { delete(bs.keys, "evekey"); bs.holdings[2].KeyHash = nil }, ""},
	} {
		audit := sound()
		c.change(&audit)
		found := audit.examine()
		var got []string
		for _, breach := range found {
			got = append(got, breach.Invariant)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, found, c.want)
		}
	}
}
