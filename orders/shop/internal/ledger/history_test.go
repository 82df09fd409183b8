package ledger

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

func TestARecordOfTheHistoryIsReadAsItWasWritten(t *testing.T) {
	at := time.UnixMilli(1764000000123).UTC()
	for name, rec := range map[string]record{
		"all": {
			Identity{70_000, "buyer", "key"}, Final, orders.Order{
				ID: key.New(at, 70_000), Status: orders.StatusPaid, Sale: "sale", Item: "shoe", Buyer: "ünser", Quantity: 3, Units: []int{0, 300, 1_000_000},
				AcceptedAt: at, ConfirmedAt: at.Add(time.Microsecond), PayBefore: at.Add(time.Hour),
			}, 1 << 40,
		},
		"little": {what: Committed, order: orders.Order{ID: key.New(at, 1), Status: orders.StatusAccepted}},
	} {
		h := newHistory(10)
		h.add(&rec, true, at)
		if got, ok := h.order(rec.Identity); !ok || !reflect.DeepEqual(got, rec) {
			t.Errorf("%s: %+v, want %+v", name, got, rec)
		}
	}
}

// TestTheHistoryKeepsTheLatestOrders, as many as it may, and reports since when.
func TestTheHistoryKeepsTheLatestOrders(t *testing.T) {
	const most, all = 2500, 10_000
	h, began := newHistory(most), time.Now()
	h.since = began
	who := func(i int) Identity { return Identity{1, fmt.Sprint("buyer-", i), ""} }
	ids := make([]orders.ID, all)
	for i := range ids {
		ids[i] = key.New(began, 1)
		o := orders.Order{ID: ids[i], Sale: []string{"even", "odd"}[i%2], Status: orders.StatusConfirmed, Quantity: 1}
		h.add(&record{who(i), Committed, o, int64(1 + i%2)}, true, began.Add(time.Duration(i)*time.Second))
		if i == most && !h.since.Equal(began) {
			t.Errorf("%d orders are kept since %v", most, h.since.Sub(began))
		}
	}
	dropped := int(h.since.Sub(began).Seconds()) + 1
	if kept := all - dropped; kept != h.kept || kept < most || kept >= most+blockMax {
		t.Fatalf("%d orders are kept, and %d counted", kept, h.kept)
	}
	if len(h.byID) != h.kept || len(h.byIdentity) != h.kept {
		t.Errorf("%d by id and %d by identity of %d", len(h.byID), len(h.byIdentity), h.kept)
	}
	for i, id := range ids {
		_, accepted := h.accepted(id)
		_, known := h.order(who(i))
		if accepted != (i >= dropped) || known != accepted {
			t.Fatalf("order %d: %v, %v, and %d were dropped", i, accepted, known, dropped)
		}
	}
	l := &Ledger{past: h}
	lost := func(sale string, before int64) int {
		list, err := l.Lost(t.Context(), sale, before, func(_ context.Context, ids []orders.ID) (map[orders.ID]orders.Status, error) {
			if len(ids) > blockMax {
				t.Errorf("%d orders in a query", len(ids))
			}
			return nil, nil
		})
		if err != nil {
			t.Error(err)
		}
		return len(list)
	}
	if odd, none, every := lost("odd", 3), lost("odd", 2), lost("", math.MaxInt64); odd != h.kept/2 || none != 0 || every != h.kept {
		t.Errorf("%d, %d and %d orders of %d", odd, none, every, h.kept)
	}
	h.end(ids[all-1])
	if n := lost("", math.MaxInt64); n != h.kept-1 {
		t.Errorf("%d orders of %d, of which one has ended", n, h.kept)
	}
}

// BenchmarkLedger accepts and commits orders, and reports how much memory a remembered order takes.
func BenchmarkLedger(b *testing.B) {
	const remembered = 100_000
	ids := make([]orders.ID, remembered)
	for i := range ids {
		ids[i] = key.New(time.UnixMilli(int64(i)), 1)
	}
	next := 0
	l := New(remembered)
	pass := func() {
		name := fmt.Sprintf("%022d", next)
		r := orders.Reservation{
			ID: ids[next%remembered], Epoch: 1, Sale: "sneakers", Item: "shoe", Buyer: name[10:], BuyerHash: name, KeyHash: name,
			Quantity: 1, Units: []int{next}, AcceptedMS: 1764000000000,
		}
		r.ID[15], r.ID[14], r.ID[13] = byte(next), byte(next>>8), byte(next>>16)
		l.Acquire()
		l.Add(Identity{1, r.BuyerHash, r.KeyHash}, r, 1)
		l.Settle(r.ID, orders.StatusConfirmed)
		next++
	}
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	for range 2 * remembered {
		pass()
	}
	size := (heap() - before) / remembered
	b.ReportAllocs()
	for b.Loop() {
		pass()
	}
	b.ReportMetric(size, "bytes/order")
}
