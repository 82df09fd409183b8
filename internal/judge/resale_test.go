package judge

import (
	"testing"

	"github.com/tidegate/tidegate/orders"
)

func TestJudgeOfUnitsThatReturn(t *testing.T) {
	x := []Call{got("c-1", "k", "x", 0, 1)}
	for _, tt := range []scene{
		// I4, I5: at every moment
		{
			name: "I4 over the quota for a while", orders: []Order{row("x", "bob", expired, 1), row("y", "bob", confirmed, 2, 3)},
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "y", "bob", confirmed, 2, 3), change(3, "x", "bob", expired, 1)}, want: "I4",
		},
		{
			name: "I4 the quota came back first", orders: []Order{row("x", "bob", expired, 1), row("y", "bob", confirmed, 2, 3)},
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "x", "bob", expired, 1), change(3, "y", "bob", confirmed, 2, 3)},
		},
		{
			name: "I4 the quota did not come back", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-1", "l", "quota_per_buyer", 2004, 2005)},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, want: "I4",
			sale: func(s *Sale) { s.Items[0].Quota = 1 },
		},
		{
			name: "I4 the quota is on its way", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-1", "l", "quota_per_buyer", 2003, 2005)},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, sale: func(s *Sale) { s.Items[0].Quota = 1 },
		},
		{
			name: "I3 more than the stock for a while", orders: []Order{row("x", "bob", expired, 1), row("y", "eve", confirmed, 2)}, sale: one, want: "I3 I5",
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "y", "eve", confirmed, 2), change(3, "x", "bob", expired, 1)},
		},
		{
			name: "I5 sold before it was returned", orders: []Order{row("x", "bob", cancelled, 1), row("y", "eve", confirmed, 1)},
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "y", "eve", confirmed, 1), change(3, "x", "bob", cancelled, 1)}, want: "I5",
		},
		{
			name: "I5 sold after it was returned", orders: []Order{row("x", "bob", cancelled, 1), row("y", "eve", confirmed, 1)},
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "x", "bob", cancelled, 1), change(3, "y", "eve", confirmed, 1)},
		},

		// I6
		{
			name: "I6 a unit is nowhere", orders: []Order{}, verify: settledDown, want: "I6",
			sale: func(s *Sale) { s.Fresh, s.Items[0].Free, s.Items[1].Free = true, 99, 100 },
		},
		{name: "I6 nobody knows what others did meanwhile", orders: []Order{}, verify: settledDown, sale: func(s *Sale) { s.Items[0].Free = 99 }, not: "I6"},
		{
			name: "I6 returned and free again", orders: []Order{row("x", "c-1", expired, 1)}, calls: x, verify: settledDown,
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)},
			sale:   func(s *Sale) { s.Fresh, s.Items[0].Free, s.Items[1].Free = true, 100, 100 },
		},

		// I15, I16: units that return
		{
			name: "I15 one unit returned, and another was never sold", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "not_enough", 2, 3)},
			orders: []Order{row("x", "c-1", expired, 1)}, sale: func(s *Sale) { s.Items[0].Stock = 2 }, want: "I15",
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)},
		},
		{
			name: "I15 everybody got one, for one was sold twice", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-2", "k", "y", 5000, 5001)},
			orders: []Order{row("x", "c-1", expired, 1), row("y", "c-2", confirmed, 1)}, sale: func(s *Sale) { s.Items[0].Stock = 2 },
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1), change(3, "y", "c-2", confirmed, 1)},
		},
		{
			name: "I16 while a unit had not been sold yet", calls: []Call{refused("c-2", "k", "sold_out", 2, 3), got("c-1", "k", "x", 4, 5)},
			orders: []Order{row("x", "c-1", confirmed, 1)}, events: []Event{change(1, "x", "c-1", confirmed, 1)}, sale: one, want: "I16",
		},
		{
			name: "I16 while the unit was being sold", calls: []Call{refused("c-2", "k", "sold_out", 2, 5), got("c-1", "k", "x", 4, 5)},
			orders: []Order{row("x", "c-1", confirmed, 1)}, events: []Event{change(1, "x", "c-1", confirmed, 1)}, sale: one,
		},
		{
			name: "I16 long after its return", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 2203, 2204)},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, sale: one, want: "I16",
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", cancelled, 1)},
		},
		{
			name: "I16 while the unit is on its way", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 2202, 2204)},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, sale: one,
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", cancelled, 1)},
		},
		{
			name: "I16 after its return and before it was sold again", want: "I16", sale: one,
			calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 3000, 3001), got("c-3", "k", "y", 3002, 3003)},
			looks: []StatusRead{look("x", expired, 2, 3)}, orders: []Order{row("x", "c-1", expired, 1), row("y", "c-3", confirmed, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1), change(3, "y", "c-3", confirmed, 1)},
		},
		{
			name: "I16 sold again meanwhile", sale: one,
			calls: []Call{got("c-1", "k", "x", 0, 1), got("c-3", "k", "y", 2999, 3003), refused("c-2", "k", "sold_out", 3000, 3001)},
			looks: []StatusRead{look("x", expired, 2, 3)}, orders: []Order{row("x", "c-1", expired, 1), row("y", "c-3", confirmed, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1), change(3, "y", "c-3", confirmed, 1)},
		},
		{
			name: "I16 nobody knows when somebody else's unit came back", calls: []Call{refused("c-2", "k", "sold_out", 9000, 9001)},
			orders: []Order{row("x", "bob", expired, 1)}, events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "x", "bob", expired, 1)}, sale: one,
		},
		{
			name: "I16 a rejected order may have held it", calls: []Call{refused("c-2", "k", "sold_out", 2, 3), got("c-1", "k", "x", 4, 5)},
			orders: []Order{row("x", "c-1", confirmed, 1), row("z", "bob", rejected)}, sale: one,
			events: []Event{change(1, "z", "bob", rejected), change(2, "x", "c-1", confirmed, 1)},
		},
		{
			name: "I16 faults may have moved it", calls: []Call{refused("c-2", "k", "sold_out", 2, 3), got("c-1", "k", "x", 4, 5)},
			orders: []Order{row("x", "c-1", confirmed, 1)}, events: []Event{change(1, "x", "c-1", confirmed, 1)}, sale: one, faults: true,
		},
		{
			name:  "I16 faults may have made the server forget what it reserved for a lost call",
			calls: []Call{lost("c-1", "k", 0, 1), refused("c-2", "k", "sold_out", 2, 3)}, orders: []Order{}, sale: one, faults: true,
		},
		{
			name:  "I16 a call that was lost later reserved nothing",
			calls: []Call{refused("c-2", "k", "sold_out", 2, 3), lost("c-1", "k", 4, 5)}, orders: []Order{}, sale: one, faults: true, want: "I15 I16",
		},
		{
			name:  "I16 nothing made the server forget",
			calls: []Call{lost("c-1", "k", 0, 1), refused("c-2", "k", "sold_out", 2, 3)}, orders: []Order{}, sale: one, want: "I15 I16",
		},
		{
			name: "I16 the stock grew later", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 2, 3), got("c-3", "k", "y", 900, 901)},
			orders: []Order{row("x", "c-1", confirmed, 1), row("y", "c-3", confirmed, 2)}, sale: func(s *Sale) { s.Items[0].Stock, s.Items[0].Grown = 3, 2 },
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "y", "c-3", confirmed, 2)},
		},
		{
			name: "I16 the stock grew later, and there is no feed", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 2, 3), got("c-3", "k", "y", 900, 901)},
			orders: []Order{row("x", "c-1", confirmed, 1), row("y", "c-3", confirmed, 2)}, sale: func(s *Sale) { s.Items[0].Stock, s.Items[0].Grown = 3, 2 },
		},
	} {
		t.Run(tt.name, tt.play)
	}
}

func TestJudgeOfOrdersWithoutAKey(t *testing.T) {
	for _, tt := range []scene{
		// I7, I18: orders without a key
		{
			name: "I7 no key, and another order after a cancel", calls: []Call{got("c-1", "", "x", 0, 1), got("c-1", "", "y", 8, 9)},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", confirmed, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", cancelled, 1), change(3, "y", "c-1", confirmed, 1)},
		},
		{
			name: "I7 a key outlives its order", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "k", "y", 8, 9)},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", confirmed, 1)}, want: "I7",
		},
		{
			name: "I7 no key, and another order while the first one lives", calls: []Call{got("c-1", "", "x", 0, 1), got("c-1", "", "y", 8, 9)},
			orders: []Order{row("x", "c-1", confirmed, 1), row("y", "c-1", confirmed, 2)}, want: "I7",
		},
		{
			name: "I7 no key, and another order before the first one ended", calls: []Call{got("c-1", "", "x", 0, 1), got("c-1", "", "y", 8, 9)},
			orders: []Order{row("x", "c-1", expired, 1), row("y", "c-1", confirmed, 2)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "y", "c-1", confirmed, 2), change(3, "x", "c-1", expired, 1)}, want: "I7",
		},
		{
			name: "I7 no key, and the cancelled order again", calls: []Call{got("c-1", "", "x", 0, 1), with(got("c-1", "", "x", 2004, 2005), func(c *Call) { c.State = cancelled })},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, want: "I7",
		},
		{
			name: "I7 no key, and the cancelled order at once", calls: []Call{got("c-1", "", "x", 0, 1), with(got("c-1", "", "x", 2003, 2005), func(c *Call) { c.State = cancelled })},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)},
		},
		{
			name: "I7 no key, and refused before the cancel", calls: []Call{got("c-1", "", "x", 0, 1), refused("c-1", "", "rate_limited", 2, 3)},
			acts: []Operation{cancels("x", 4, 5)}, orders: []Order{row("x", "c-1", cancelled, 1)}, want: "I7",
		},
		{
			name: "I7 no key, and refused during the cancel", calls: []Call{got("c-1", "", "x", 0, 1), refused("c-1", "", "rate_limited", 2, 4)},
			acts: []Operation{cancels("x", 4, 5)}, orders: []Order{row("x", "c-1", cancelled, 1)},
		},
		{
			name: "I18 no key, the lost one expired, and the repeat is another one", calls: []Call{lost("c-1", "", 0, 1), got("c-1", "", "y", 8, 9)},
			orders: []Order{row("x", "c-1", expired, 1), row("y", "c-1", confirmed, 2)},
		},
		{
			name: "I18 no key, and the lost one lives beside its repeat", calls: []Call{lost("c-1", "", 0, 1), got("c-1", "", "y", 8, 9)},
			orders: []Order{row("x", "c-1", confirmed, 1), row("y", "c-1", confirmed, 2)}, want: "I18",
		},
		{
			name: "I18 no key, and the answer after a cancel was lost", calls: []Call{got("c-1", "", "x", 0, 1), lost("c-1", "", 8, 9)},
			acts: []Operation{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", confirmed, 1)},
		},
		{
			name: "I18 a stopped server ran the lost call after its repeat was refused", faults: true,
			calls: []Call{lost("c-1", "k", 0, 1), refused("c-1", "k", "sold_out", 2000, 2001)}, orders: []Order{acceptedAt(row("x", "c-1", confirmed, 1), 1001)},
			sale: one,
		},
		{
			name: "I18 the order stood when the repeat was refused", faults: true, want: "I18",
			calls: []Call{lost("c-1", "k", 0, 1), refused("c-1", "k", "sold_out", 2000, 2001)}, orders: []Order{acceptedAt(row("x", "c-1", confirmed, 1), 1000)},
			sale: one,
		},
		{
			name: "I18 the lost one gave way to its repeat", faults: true, calls: []Call{lost("c-1", "k", 0, 1), got("c-1", "k", "y", 8, 9)},
			orders: []Order{because(row("x", "c-1", rejected), "duplicate"), row("y", "c-1", confirmed, 1)},
		},
		{
			name: "I18 the lost one gave way to its repeat, whose answer was lost too", faults: true, calls: []Call{lost("c-1", "k", 0, 1), lost("c-1", "k", 8, 9)},
			orders: []Order{because(row("x", "c-1", rejected), "duplicate"), row("y", "c-1", confirmed, 1)},
		},
		{
			name: "I18 one gave way, and two stand", faults: true, want: "I18", calls: []Call{lost("c-1", "k", 0, 1), lost("c-1", "k", 8, 9)},
			orders: []Order{because(row("x", "c-1", rejected), "duplicate"), row("y", "c-1", expired, 1), row("z", "c-1", confirmed, 1)},
		},
		{
			name: "I18 the promised one gave way to the lost one", faults: true, want: "I18", calls: []Call{lost("c-1", "k", 0, 1), got("c-1", "k", "x", 8, 9)},
			orders: []Order{because(row("x", "c-1", rejected), "duplicate"), row("y", "c-1", confirmed, 1)},
		},
		{
			name: "I18 the lost one was rejected, and not for its repeat", faults: true, want: "I18", calls: []Call{lost("c-1", "k", 0, 1), got("c-1", "k", "y", 8, 9)},
			orders: []Order{because(row("x", "c-1", rejected), "recovered_late"), row("y", "c-1", confirmed, 1)},
		},
		{
			name: "I18 nothing stopped the server", want: "I18",
			calls: []Call{lost("c-1", "k", 0, 1), refused("c-1", "k", "sold_out", 2000, 2001)}, orders: []Order{acceptedAt(row("x", "c-1", confirmed, 1), 1001)},
			sale: one,
		},
		{
			name: "I18 what was answered 503 may run late", faults: true,
			calls:  []Call{answered503(lost("c-1", "k", 0, 1), "store_unavailable"), refused("c-1", "k", "sold_out", 2000, 2001)},
			orders: []Order{acceptedAt(row("x", "c-1", confirmed, 1), 1001)}, sale: one,
		},
		{
			name: "I18 what ran before its repeat was refused did not run late", faults: true, want: "I18",
			calls:  []Call{answered503(lost("c-1", "k", 0, 1), "store_unavailable"), refused("c-1", "k", "sold_out", 2000, 2001)},
			orders: []Order{acceptedAt(row("x", "c-1", confirmed, 1), 999)}, sale: one,
		},
		{
			name: "I18 what was refused at capacity does not run", faults: true, want: "I18",
			calls:  []Call{answered503(lost("c-1", "k", 0, 1), orders.ReasonAtCapacity), refused("c-1", "k", "sold_out", 2000, 2001)},
			orders: []Order{acceptedAt(row("x", "c-1", confirmed, 1), 1001)}, sale: one,
		},
		{
			name: "I2 no key, and more orders than calls", calls: []Call{got("c-1", "", "x", 0, 1)}, acts: []Operation{cancels("x", 2, 3)},
			orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", confirmed, 1)}, want: "I2",
		},
	} {
		t.Run(tt.name, tt.play)
	}
}

func answered503(c Call, reason orders.Reason) Call {
	c.Status, c.Reason = 503, string(reason)
	return c
}

func because(o Order, reason orders.Reason) Order {
	o.Reason = reason
	return o
}
