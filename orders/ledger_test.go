package orders

import (
	"testing"
	"time"
)

func TestMemoryRefusesOnlyWhatWasTrueWhenItLooked(t *testing.T) {
	now := time.Now()
	sale := Sale{Switch: SwitchOpen, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(time.Hour)}
	paused := sale
	paused.Switch = SwitchPaused
	early := sale
	early.StartsAt = now.Add(time.Minute)
	soon := sale
	soon.StartsAt = now.Add(edge / 2)
	fresh := glance{at: now, now: now, switched: SwitchOpen, complete: true}
	with := func(change func(*glance)) *glance {
		g := fresh
		change(&g)
		return &g
	}
	for name, c := range map[string]struct {
		sale   Sale
		glance *glance
		want   Reason
	}{
		"never looked":                      {sale, nil, ""},
		"nothing free":                      {sale, &fresh, ReasonSoldOut},
		"nothing free, long ago":            {sale, with(func(g *glance) { g.at = now.Add(-glanceTTL - time.Second) }), ""},
		"some free":                         {sale, with(func(g *glance) { g.free = 1 }), ""},
		"holders still unknown":             {sale, with(func(g *glance) { g.complete = false }), ""},
		"recovering":                        {sale, with(func(g *glance) { g.recovering = true }), ""},
		"paused":                            {paused, with(func(g *glance) { g.switched = SwitchPaused }), ReasonPaused},
		"paused after the look":             {paused, &fresh, ""},
		"resumed after the look":            {sale, with(func(g *glance) { g.switched = SwitchPaused }), ""},
		"not started":                       {early, &fresh, ReasonNotStarted},
		"about to start":                    {soon, &fresh, ""},
		"nothing free before it was paused": {paused, with(func(g *glance) { g.free = 0 }), ""},
	} {
		if got, _ := refusal(&c.sale, c.glance, now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheLedgerIsBounded(t *testing.T) {
	l := newLedger(3)
	id := func(i int) ID { return newID(time.UnixMilli(int64(i)), 1) }
	ids := make([]ID, 10)
	for i := range ids {
		ids[i] = id(i)
		if !l.claim() {
			t.Fatalf("no room for order %d", i)
		}
		who := identity{item: 1, buyer: ids[i].String()}
		l.add(who, Reservation{ID: ids[i], Quantity: 1})
		if i >= 2 {
			l.settle(ids[i-2], StatusConfirmed)
			l.settle(ids[i-2], StatusConfirmed) // hearing it twice frees one place
			l.learn(identity{item: 1, buyer: ids[i-2].String()}, Order{ID: ids[i-2], Status: StatusPaid})
		}
	}
	if !l.claim() || l.claim() {
		t.Errorf("with two uncommitted orders of three there is room for one")
	}
	if len(l.known) > 6 || len(l.pending) != 2 {
		t.Errorf("%d known, %d pending", len(l.known), len(l.pending))
	}
	if _, ok := l.accepted(ids[9]); !ok {
		t.Error("an uncommitted order was forgotten")
	}
	if o, ok := l.held(identity{item: 1, buyer: ids[7].String()}); !ok || o.Status != StatusPaid {
		t.Errorf("the latest final order is %+v, %v", o, ok)
	}
}

// What may have changed elsewhere is not said from memory.
func TestTheLedgerForgetsWhatMayChange(t *testing.T) {
	l, now := newLedger(3), time.Now()
	who := identity{item: 1, buyer: "b"}
	for name, c := range map[string]struct {
		o    Order
		want bool
	}{
		"paid":                {Order{Status: StatusPaid, PayBefore: now}, true},
		"nothing to pay":      {Order{Status: StatusConfirmed}, true},
		"waits for a payment": {Order{Status: StatusConfirmed, PayBefore: now}, false},
		"over":                {Order{Status: StatusCancelled}, false},
		"dead letter":         {Order{Status: StatusAccepted}, false},
	} {
		delete(l.known, who)
		c.o.ID = newID(now, 1)
		l.learn(who, c.o)
		if _, ok := l.held(who); ok != c.want {
			t.Errorf("%s: held is %v", name, ok)
		}
	}
	id := newID(now, 1)
	l.claim()
	l.add(who, Reservation{ID: id, Quantity: 1})
	if _, ok := l.held(who); !ok {
		t.Error("an order accepted just now is not known")
	}
	l.settle(id, StatusConfirmed)
	if _, ok := l.held(who); ok || len(l.known) != 0 {
		t.Error("a committed order is said to be accepted")
	}
}
