package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// testRoom: the room of an item stays when the sale is defined again.
func testRoom(t *testing.T, b *bench) {
	b.put()
	item := b.sale.Items[0].ID
	b.must(b.SetRoom(t.Context(), b.sale.ID, item, "", "queue"))
	after := func() orders.Sale {
		all, err := b.all()
		b.must(err)
		return all[0]
	}
	guarded := after()
	if guarded.Items[0].Room != "queue" || guarded.Items[1].Room != "" || guarded.Revision <= b.sale.Revision {
		t.Errorf("%+v", guarded)
	}
	b.must(b.SetRoom(t.Context(), b.sale.ID, item, "", "queue"))
	if again := after(); again.Items[0].Room != "queue" || again.Revision <= guarded.Revision {
		t.Errorf("the same room again: %+v", again)
	}
	for _, change := range [][2]string{{"", "another"}, {"another", ""}} {
		if err := b.SetRoom(t.Context(), b.sale.ID, item, change[0], change[1]); !errors.Is(err, orders.ErrConflict) ||
			!strings.Contains(err.Error(), "room queue") {
			t.Errorf("from %q to %q: %v", change[0], change[1], err)
		}
	}
	def := definition()
	def.Items[0].Stock, def.Items[0].Final = def.Items[0].Stock+1, true
	stored, _, _, err := b.PutSale(t.Context(), def)
	b.must(err)
	if stored.Items[0].Room != "queue" || !stored.Items[0].Final {
		t.Errorf("%+v", stored.Items[0])
	}
	b.must(b.SetRoom(t.Context(), b.sale.ID, item, "queue", ""))
	b.want(after().Items[0].Room, "", "room")
}

// testLatest: of a buyer's orders of an item, the latest that was not rejected.
func testLatest(t *testing.T, b *bench) {
	b.put()
	first, second, rejected := b.reservation(1), b.reservation(2), b.reservation(3)
	second.BuyerHash, second.KeyHash, second.AcceptedMS = first.BuyerHash, "another", first.AcceptedMS+1000
	rejected.Reason = orders.ReasonRecoveredLate
	unsettled := func(want bool) {
		t.Helper()
		got, err := b.Unsettled(t.Context(), b.sale.ID, first.Item)
		b.must(err)
		b.want(got, want, "unsettled")
	}
	unsettled(false)
	b.commit(first, second, rejected)
	found, err := b.Latest(t.Context(), b.sale.ID, first.Item, []string{first.BuyerHash, rejected.BuyerHash, "unknown"})
	b.must(err)
	b.want(found, map[string]orders.Order{first.BuyerHash: {ID: second.ID, AcceptedAt: time.UnixMilli(second.AcceptedMS).UTC()}}, "latest")
	unsettled(true)
	_, err = b.Cancel(t.Context(), []orders.ID{first.ID, second.ID})
	b.must(err)
	unsettled(true) // their units are about to be returned
	b.must(b.Returned(t.Context(), []orders.ID{first.ID, second.ID}))
	unsettled(false)
}
