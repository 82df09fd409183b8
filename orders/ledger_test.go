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
	soon.StartsAt = now.Add(nearHours / 2)
	fresh := snapshot{at: now, now: now, switched: SwitchOpen, complete: true}
	with := func(change func(*snapshot)) *snapshot {
		g := fresh
		change(&g)
		return &g
	}
	for name, c := range map[string]struct {
		sale     Sale
		snapshot *snapshot
		want     Reason
	}{
		"never looked":                      {sale, nil, ""},
		"nothing free":                      {sale, &fresh, ReasonSoldOut},
		"nothing free, long ago":            {sale, with(func(g *snapshot) { g.at = now.Add(-snapshotTTL - time.Second) }), ""},
		"some free":                         {sale, with(func(g *snapshot) { g.free = 1 }), ""},
		"holders still unknown":             {sale, with(func(g *snapshot) { g.complete = false }), ""},
		"recovering":                        {sale, with(func(g *snapshot) { g.recovering = true }), ""},
		"paused":                            {paused, with(func(g *snapshot) { g.switched = SwitchPaused }), ReasonPaused},
		"paused after the look":             {paused, &fresh, ""},
		"resumed after the look":            {sale, with(func(g *snapshot) { g.switched = SwitchPaused }), ""},
		"not started":                       {early, &fresh, ReasonNotStarted},
		"about to start":                    {soon, &fresh, ""},
		"nothing free before it was paused": {paused, with(func(g *snapshot) { g.free = 0 }), ""},
	} {
		if got, _ := refusal(&c.sale, c.snapshot, now); got != c.want {
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
		if !l.acquire() {
			t.Fatalf("no room for order %d", i)
		}
		who := identity{item: 1, buyer: ids[i].String()}
		l.add(who, Reservation{ID: ids[i], Quantity: 1}, 1)
		if i >= 2 {
			l.settle(ids[i-2], StatusConfirmed)
			l.settle(ids[i-2], StatusConfirmed) // a second notification must free only one place
			l.learn(identity{item: 1, buyer: ids[i-2].String()}, Order{ID: ids[i-2], Status: StatusPaid})
		}
	}
	if !l.acquire() || l.acquire() {
		t.Errorf("with two uncommitted orders of three there is room for one")
	}
	if len(l.known) != 2 || len(l.pending) != 2 || l.past.kept > 6 || len(l.past.byID) > 6 || len(l.past.byIdentity) > 6 {
		t.Errorf("%d known, %d pending, %d committed", len(l.known), len(l.pending), l.past.kept)
	}
	if _, ok := l.accepted(ids[9]); !ok {
		t.Error("an uncommitted order was forgotten")
	}
	if o, what, ok := l.held(identity{item: 1, buyer: ids[7].String()}); !ok || what != final || o.Status != StatusPaid {
		t.Errorf("the latest final order is %+v, %v", o, ok)
	}
}

// TestTheLedgerSaysWhatIsCertain: orders that may have changed elsewhere are remembered as such, and ended ones do not block
// the buyer's next order.
func TestTheLedgerSaysWhatIsCertain(t *testing.T) {
	l, now := newLedger(3), time.Now()
	who, keyed := identity{item: 1, buyer: "b"}, identity{item: 1, buyer: "b", key: "k"}
	for name, c := range map[string]struct {
		who  identity
		o    Order
		want string
	}{
		"paid":                {who, Order{Status: StatusPaid, PayBefore: now}, "final"},
		"nothing to pay":      {who, Order{Status: StatusConfirmed}, "final"},
		"waits for a payment": {who, Order{Status: StatusConfirmed, PayBefore: now}, "committed"},
		"over":                {who, Order{Status: StatusCancelled}, "unknown"},
		"over, with a key":    {keyed, Order{Status: StatusCancelled}, "committed"},
		"dead letter":         {who, Order{Status: StatusAccepted}, "committed"},
	} {
		l.past = newHistory(3)
		c.o.ID = newID(now, 1)
		l.learn(c.who, c.o)
		if got := saidOf(l, c.who); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	l.past = newHistory(3)
	id := newID(now, 1)
	l.acquire()
	l.add(who, Reservation{ID: id, Quantity: 1}, 1)
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"accepted", func() {}, "pending"},
		{"said to be over while it is pending", func() { l.learn(who, Order{ID: id, Status: StatusCancelled}) }, "pending"},
		{"dropped while it is pending", func() { l.drop(who) }, "pending"},
		{"committed", func() { l.settle(id, StatusConfirmed) }, "committed"},
		{"paid", func() { l.learn(who, Order{ID: id, Status: StatusPaid}) }, "final"},
		{"over", func() { l.learn(who, Order{ID: id, Status: StatusCancelled}) }, "unknown"},
		{"confirmed", func() { l.learn(who, Order{ID: id, Status: StatusConfirmed, PayBefore: now}) }, "committed"},
		{"held no longer", func() { l.drop(who) }, "unknown"},
	} {
		step.do()
		if got := saidOf(l, who); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
}

func saidOf(l *ledger, who identity) string {
	_, what, ok := l.held(who)
	if !ok {
		return "unknown"
	}
	return [...]string{"pending", "committed", "final"}[what]
}
