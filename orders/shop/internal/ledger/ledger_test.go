package ledger

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

func TestTheLedgerIsBounded(t *testing.T) {
	l := New(3)
	id := func(i int) orders.ID { return key.New(time.UnixMilli(int64(i)), 1) }
	ids := make([]orders.ID, 10)
	for i := range ids {
		ids[i] = id(i)
		if !l.Acquire() {
			t.Fatalf("no room for order %d", i)
		}
		who := Identity{Item: 1, Buyer: ids[i].String()}
		l.Add(who, orders.Reservation{ID: ids[i], Quantity: 1}, 1)
		if i >= 2 {
			l.Settle(ids[i-2], orders.StatusConfirmed)
			l.Settle(ids[i-2], orders.StatusConfirmed) // a second notification must free only one place
			l.Learn(Identity{Item: 1, Buyer: ids[i-2].String()}, orders.Order{ID: ids[i-2], Status: orders.StatusPaid})
		}
	}
	if !l.Acquire() || l.Acquire() {
		t.Errorf("with two uncommitted orders of three there is room for one")
	}
	if len(l.known) != 2 || len(l.pending) != 2 || l.past.kept > 6 || len(l.past.byID) > 6 || len(l.past.byIdentity) > 6 {
		t.Errorf("%d known, %d pending, %d committed", len(l.known), len(l.pending), l.past.kept)
	}
	if _, ok := l.Accepted(ids[9]); !ok {
		t.Error("an uncommitted order was forgotten")
	}
	if o, what, ok := l.Held(Identity{Item: 1, Buyer: ids[7].String()}); !ok || what != Final || o.Status != orders.StatusPaid {
		t.Errorf("the latest final order is %+v, %v", o, ok)
	}
}

// TestTheLedgerSaysWhatIsCertain: orders that may have changed elsewhere are remembered as such, and ended ones do not block
// the buyer's next order.
func TestTheLedgerSaysWhatIsCertain(t *testing.T) {
	l, now := New(3), time.Now()
	who, keyed := Identity{Item: 1, Buyer: "b"}, Identity{Item: 1, Buyer: "b", Key: "k"}
	for name, c := range map[string]struct {
		who  Identity
		o    orders.Order
		want string
	}{
		"paid":                {who, orders.Order{Status: orders.StatusPaid, PayBefore: now}, "final"},
		"nothing to pay":      {who, orders.Order{Status: orders.StatusConfirmed}, "final"},
		"waits for a payment": {who, orders.Order{Status: orders.StatusConfirmed, PayBefore: now}, "committed"},
		"over":                {who, orders.Order{Status: orders.StatusCancelled}, "unknown"},
		"over, with a key":    {keyed, orders.Order{Status: orders.StatusCancelled}, "committed"},
		"dead letter":         {who, orders.Order{Status: orders.StatusAccepted}, "committed"},
	} {
		l.past = newHistory(3)
		c.o.ID = key.New(now, 1)
		l.Learn(c.who, c.o)
		if got := saidOf(l, c.who); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	l.past = newHistory(3)
	id := key.New(now, 1)
	l.Acquire()
	l.Add(who, orders.Reservation{ID: id, Quantity: 1}, 1)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"accepted", func() {}, "pending"},
		{"said to be over while it is pending", func() { l.Learn(who, orders.Order{ID: id, Status: orders.StatusCancelled}) }, "pending"},
		{"dropped while it is pending", func() { l.Drop(who) }, "pending"},
		{"committed", func() { l.Settle(id, orders.StatusConfirmed) }, "committed"},
		{"paid", func() { l.Learn(who, orders.Order{ID: id, Status: orders.StatusPaid}) }, "final"},
		{"over", func() { l.Learn(who, orders.Order{ID: id, Status: orders.StatusCancelled}) }, "unknown"},
		{"confirmed", func() { l.Learn(who, orders.Order{ID: id, Status: orders.StatusConfirmed, PayBefore: now}) }, "committed"},
		{"held no longer", func() { l.Drop(who) }, "unknown"},
	} {
		step.do()
		if got := saidOf(l, who); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
}

func saidOf(l *Ledger, who Identity) string {
	_, what, ok := l.Held(who)
	if !ok {
		return "unknown"
	}
	return [...]string{"pending", "committed", "final"}[what]
}

// key makes the ids of the tests.
var key = orders.IDKey{Key: []byte("key")}
