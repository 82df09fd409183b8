package judge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// The scenes are written from a buyer's view; times are milliseconds.

func asked(buyer, key string, from, to int, outcome Outcome, rest func(*Call)) Call {
	c := Call{
		Attempt: 1, Buyer: buyer, Item: "a", Quantity: 1, Key: key, Outcome: outcome,
		Started: time.Duration(from) * time.Millisecond, Ended: time.Duration(to) * time.Millisecond,
	}
	rest(&c)
	return c
}

func got(buyer, key, id string, from, to int) Call {
	return asked(buyer, key, from, to, Admitted, func(c *Call) { c.OrderID, c.State, c.Status = id, accepted, 202 })
}

func refused(buyer, key, reason string, from, to int) Call {
	return asked(buyer, key, from, to, Refused, func(c *Call) { c.Reason, c.Status = reason, 409 })
}

func lost(buyer, key string, from, to int) Call {
	return asked(buyer, key, from, to, Lost, func(c *Call) { c.Reason = "timeout" })
}

func units(n int) func(*Call) { return func(c *Call) { c.Quantity = n } }

func with(c Call, change func(*Call)) Call { change(&c); return c }

func row(id, buyer string, status orders.Status, units ...int) Order {
	return Order{OrderID: id, User: buyer, Status: status, Item: "a", Quantity: max(len(units), 1), Units: units, AcceptedAt: noon}
}

func look(id string, state orders.Status, from, to int) StatusRead {
	return StatusRead{OrderID: id, State: state, Started: time.Duration(from) * time.Millisecond, Ended: time.Duration(to) * time.Millisecond}
}

// scene is a history and the server's evidence, and the expected findings.
type scene struct {
	name   string
	calls  []Call
	looks  []StatusRead
	acts   []Operation
	orders []Order
	events []Event
	stops  []Stop
	limit  int
	faults bool
	sale   func(*Sale)
	verify *Verification
	want   string // breaches
	not    string // invariants that must not be judged
}

func TestJudge(t *testing.T) {
	for _, tt := range []scene{
		{name: "an empty run", orders: []Order{}, not: "I15 I16 I17"},
		{name: "the list could not be read", calls: []Call{got("c-1", "k", "x", 0, 1)}, not: "I1 I2 I3 I4 I5 I8 I13 I14 I15 I16 I18"},
		{
			name: "the list could not be read, and verify says that all is well", calls: []Call{got("c-1", "k", "x", 0, 1)}, not: "I1",
			verify: &Verification{OK: true, Checks: []orders.Check{{Invariant: "I1", OK: true, Detail: "all there"}}},
		},
		{name: "bought and confirmed", calls: []Call{got("c-1", "k", "x", 0, 1)}, orders: []Order{row("x", "c-1", "confirmed", 1)}},
		{name: "I1 not listed", calls: []Call{got("c-1", "k", "x", 0, 1)}, orders: []Order{}, want: "I1"},
		{
			name: "I1 listed twice", calls: []Call{got("c-1", "k", "x", 0, 1)},
			orders: []Order{row("x", "c-1", "confirmed", 1), row("x", "c-1", "confirmed", 1)}, want: "I1",
		},
		{name: "I1 a rejected order is a row", calls: []Call{got("c-1", "k", "x", 0, 1)}, orders: []Order{row("x", "c-1", "rejected")}},

		{name: "I2 somebody else's order at a sale of everybody", orders: []Order{row("x", "bob", "confirmed", 1)}},
		{
			name: "I2 somebody else's order at a fresh sale", orders: []Order{row("x", "bob", "confirmed", 1)},
			sale: func(s *Sale) { s.Fresh = true }, want: "I2",
		},
		{
			name: "I2 another item", calls: []Call{got("c-1", "k", "x", 0, 1)},
			orders: []Order{row("x", "c-1", "confirmed", 1), func() Order { o := row("y", "c-1", "confirmed", 1); o.Item = "b"; return o }()}, want: "I2",
		},
		{
			name: "I2 a second order without a second call", calls: []Call{got("c-1", "k", "x", 0, 1)},
			orders: []Order{row("x", "c-1", "confirmed", 1), row("y", "c-1", "expired", 2)}, want: "I2",
		},

		{
			name: "I3 more units than stock", orders: []Order{row("x", "bob", "confirmed", 1, 2), row("y", "eve", "confirmed", 3, 4)},
			sale: func(s *Sale) { s.Items[0].Stock = 3 }, want: "I3 I5",
		},
		{
			name: "I3 what was returned does not count", orders: []Order{row("x", "bob", "cancelled", 1, 2), row("y", "eve", "confirmed", 1, 2)},
			sale: func(s *Sale) { s.Items[0].Stock = 2 },
		},
		{name: "I4 over the quota in two orders", orders: []Order{row("x", "bob", "paid", 1, 2), row("y", "bob", "confirmed", 3)}, want: "I4"},
		{name: "I4 a cancelled order does not count", orders: []Order{row("x", "bob", "cancelled", 1, 2), row("y", "bob", "confirmed", 3)}},
		{name: "I4 unknown quota", orders: []Order{row("x", "bob", "paid", 1, 2, 3)}, sale: func(s *Sale) { s.Items = []Item{{Item: "a", Stock: 100}} }, not: "I4"},
		{name: "I5 one unit in two orders", orders: []Order{row("x", "bob", "paid", 1), row("y", "eve", "confirmed", 1)}, want: "I5"},
		{name: "I5 unit 0", orders: []Order{row("x", "bob", "paid", 0)}, want: "I5"},
		{name: "I5 too few units", orders: []Order{func() Order { o := row("x", "bob", "paid", 1); o.Quantity = 2; return o }()}, want: "I5"},

		{
			name: "I7 two orders for a key", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "k", "y", 2, 3)},
			orders: []Order{row("x", "c-1", "confirmed", 1), row("y", "c-1", "confirmed", 2)}, want: "I7",
		},
		{
			name: "I7 refused with an order in hand", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-1", "k", "ended", 2, 3)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, want: "I7",
		},
		{
			name: "I7 refused meanwhile", calls: []Call{got("c-1", "k", "x", 0, 3), refused("c-1", "k", "rate_limited", 2, 4)},
			orders: []Order{row("x", "c-1", "confirmed", 1)},
		},
		{
			name: "I7 refusals are not remembered", calls: []Call{refused("c-1", "k", "rate_limited", 0, 1), got("c-1", "k", "x", 2, 3)},
			orders: []Order{row("x", "c-1", "confirmed", 1)},
		},
		{
			name: "I7 one order for two keys", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-2", "k", "x", 2, 3)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, want: "I7",
		},

		{
			name: "I8 refused, and there it is", calls: []Call{refused("c-1", "k", "rate_limited", 0, 1)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, want: "I8",
		},
		{
			name: "I8 the second key of a double click", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-1", "kb", "quota_per_buyer", 0, 1)},
			orders: []Order{row("x", "c-1", "confirmed", 1), row("y", "c-1", "confirmed", 2)}, want: "I8",
		},

		{
			name: "I9 back to accepted", calls: []Call{got("c-1", "k", "x", 0, 1)}, looks: []StatusRead{look("x", "confirmed", 2, 3), look("x", accepted, 4, 5)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, want: "I9",
		},
		{
			name: "I9 a double click is answered from memory", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "k", "x", 100, 105)},
			looks: []StatusRead{look("x", "confirmed", 2, 3)}, orders: []Order{row("x", "c-1", "confirmed", 1)},
		},
		{
			name: "I9 a repeat that forgets the commit", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "k", "x", 101, 105)},
			looks: []StatusRead{look("x", "confirmed", 2, 3)}, orders: []Order{row("x", "c-1", "confirmed", 1)}, want: "I9",
		},
		{
			name: "I9 looks that overlap", calls: []Call{got("c-1", "k", "x", 0, 1)}, looks: []StatusRead{look("x", "confirmed", 2, 3), look("x", accepted, 2, 5)},
			orders: []Order{row("x", "c-1", "confirmed", 1)},
		},
		{
			name: "I9 a terminal status changed", calls: []Call{got("c-1", "k", "x", 0, 1)}, looks: []StatusRead{look("x", "expired", 2, 3)},
			orders: []Order{row("x", "c-1", "paid", 1)}, want: "I9",
		},
		{
			name: "I9 the list went back", calls: []Call{got("c-1", "k", "x", 0, 1)}, looks: []StatusRead{look("x", "confirmed", 2, 3)},
			orders: []Order{row("x", "c-1", "rejected")}, want: "I9",
		},
		{name: "I9 steps unseen", calls: []Call{got("c-1", "k", "x", 0, 1)}, orders: []Order{row("x", "c-1", "expired", 1)}},

		{name: "I13 before the start", orders: []Order{row("x", "bob", "paid", 1)}, sale: func(s *Sale) { s.StartsAt = noon.Add(time.Millisecond) }, want: "I13"},
		{name: "I13 at the end", orders: []Order{row("x", "bob", "paid", 1)}, sale: func(s *Sale) { s.EndsAt = noon }, want: "I13"},
		{name: "I14 still accepted", calls: []Call{got("c-1", "k", "x", 0, 1)}, orders: []Order{row("x", "c-1", accepted)}, want: "I14"},
		{name: "I14 somebody else's may wait", orders: []Order{row("x", "bob", accepted)}},

		{
			name: "I15 a unit is nowhere", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "not_enough", 2, 3)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, sale: func(s *Sale) { s.Items[0].Stock = 2 }, want: "I15",
		},
		{
			name: "I15 the rest is too little for who is left", calls: []Call{got("c-1", "k", "x", 0, 1), with(refused("c-2", "k", "not_enough", 2, 3), units(2))},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, sale: func(s *Sale) { s.Items[0].Stock = 2 },
		},
		{
			name: "I15 what was returned late", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 2, 3)},
			orders: []Order{row("x", "c-1", "cancelled", 1)}, sale: func(s *Sale) { s.Items[0].Stock = 1 },
		},
		{
			name: "I15 a quota bounds demand", calls: []Call{with(got("c-1", "k", "x", 0, 1), units(2)), with(refused("c-1", "k2", "not_enough", 2, 3), units(2))},
			orders: []Order{row("x", "c-1", "confirmed", 1, 2)}, sale: func(s *Sale) { s.Items[0].Stock = 3 }, not: "I15",
		},
		{
			name: "I15 and I16 leave a missing order to I1", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 2, 3)},
			orders: []Order{}, sale: func(s *Sale) { s.Items[0].Stock = 1 }, want: "I1",
		},

		{name: "I16 units are left", calls: []Call{refused("c-2", "k", "sold_out", 2, 3)}, orders: []Order{}, want: "I16"},
		{
			name: "I16 somebody got one later", calls: []Call{refused("c-2", "k", "sold_out", 2, 3), got("c-1", "k", "x", 300, 301)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, sale: func(s *Sale) { s.Items[0].Stock = 1 }, want: "I16",
		},
		{
			name: "I16 within the cache's age", calls: []Call{refused("c-2", "k", "sold_out", 2, 3), got("c-1", "k", "x", 200, 301)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, sale: func(s *Sale) { s.Items[0].Stock = 1 },
		},
		{
			name: "I16 a repeat is not a new unit", calls: []Call{lost("c-1", "k", 0, 1), refused("c-2", "k", "sold_out", 2, 3), got("c-1", "k", "x", 300, 301)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, sale: func(s *Sale) { s.Items[0].Stock = 1 },
		},
		{
			name: "I16 one came back", calls: []Call{refused("c-2", "k", "sold_out", 2, 3), got("c-1", "k", "x", 300, 301)},
			orders: []Order{row("x", "c-1", "confirmed", 1), row("z", "bob", "expired", 1)}, sale: func(s *Sale) { s.Items[0].Stock = 1 },
		},

		{name: "I18 lost, and listed", calls: []Call{lost("c-1", "k", 0, 1)}, orders: []Order{row("x", "c-1", "confirmed", 1)}},
		{name: "I18 lost, and never happened", calls: []Call{lost("c-1", "k", 0, 1)}, orders: []Order{}},
		{
			name: "I18 lost, and listed twice", calls: []Call{lost("c-1", "k", 0, 1)},
			orders: []Order{row("x", "c-1", "confirmed", 1), row("y", "c-1", "confirmed", 2)}, want: "I18",
		},
		{
			name: "I18 lost, told no, and there it is", calls: []Call{lost("c-1", "k", 0, 1), refused("c-1", "k", "rate_limited", 2, 3)},
			orders: []Order{row("x", "c-1", "confirmed", 1)}, want: "I18",
		},
		{
			name: "I18 told no while the lost one was under way", calls: []Call{lost("c-1", "k", 0, 3), refused("c-1", "k", "rate_limited", 2, 4)},
			orders: []Order{row("x", "c-1", "confirmed", 1)},
		},
		{
			name: "I18 lost, and repeated as another", calls: []Call{lost("c-1", "k", 0, 1), got("c-1", "k", "y", 2, 3)},
			orders: []Order{row("x", "c-1", "confirmed", 1), row("y", "c-1", "confirmed", 2)}, want: "I18",
		},

		{
			name: "verify breaks what looked well", orders: []Order{}, want: "I3 I10",
			verify: &Verification{Checks: []orders.Check{{Invariant: "I3", OK: false, Detail: "61 units"}, {Invariant: "I10", OK: false, Detail: "unit 4"}, {Invariant: "I17", OK: true, Detail: "empty"}}},
		},
		{
			name: "verify mends nothing", calls: []Call{got("c-1", "k", "x", 0, 1)}, orders: []Order{}, want: "I1",
			verify: &Verification{OK: true, Checks: []orders.Check{{Invariant: "I1", OK: true, Detail: "all there"}}},
		},
		{
			name: "I17 something is still under way", orders: []Order{}, want: "I17",
			verify: &Verification{OK: true, Checks: []orders.Check{{Invariant: "I17", OK: true, Detail: "1 task", Waiting: 1}}},
		},
		{name: "verify does not say why", orders: []Order{}, verify: &Verification{}, want: "verify"},
		{name: "verify knows more", orders: []Order{}, verify: &Verification{Checks: []orders.Check{{Invariant: "I99", OK: false, Detail: "new"}, {Invariant: "I99", OK: true, Detail: "fine"}}}, want: "I99"},
	} {
		t.Run(tt.name, tt.play)
	}
}

// play judges the scene.
func (tt scene) play(t *testing.T) {
	h := &History{Head: Head{Prefix: "c-", StartedAt: noon, Planned: len(tt.calls)}, Calls: tt.calls, StatusReads: tt.looks, Operations: tt.acts, Stops: tt.stops}
	for i := range h.Calls {
		h.Calls[i].Seq = i
	}
	sale := Sale{StartsAt: noon.Add(-time.Hour), EndsAt: noon.Add(time.Hour), Items: []Item{{Item: "a", Stock: 100, Quota: 2}, {Item: "b", Stock: 100, Quota: 2}}}
	if tt.sale != nil {
		tt.sale(&sale)
	}
	var broke, skipped []string
	for _, f := range Findings(h, Evidence{Orders: tt.orders, Events: tt.events, Verify: tt.verify, Sale: sale, Limit: tt.limit, Window: time.Minute, Faults: tt.faults}) {
		switch f.Verdict {
		case Breach:
			broke = append(broke, f.Invariant)
			if f.Breaches == 0 || len(f.Examples) == 0 {
				t.Errorf("%s is broken without an example: %+v", f.Invariant, f)
			}
		case NotJudged:
			skipped = append(skipped, f.Invariant)
			if f.Detail == "" {
				t.Errorf("%s does not say why it was not judged", f.Invariant)
			}
		case OK:
		default:
			t.Errorf("%s has verdict %q", f.Invariant, f.Verdict)
		}
	}
	if strings.Join(broke, " ") != tt.want {
		t.Errorf("broken %v, want %q", broke, tt.want)
	}
	for _, want := range strings.Fields(tt.not) {
		if !slices.Contains(skipped, want) {
			t.Errorf("%s was judged", want)
		}
	}
}
