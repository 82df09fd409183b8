package rehearse

import (
	"testing"
	"time"
)

// change is a line of the feed.
func change(seq int64, id, buyer, status string, units ...int) Event {
	return Event{
		Seq: seq, At: noon.Add(time.Duration(seq) * time.Second), OrderID: id, Sale: "s", Item: "a", Buyer: buyer,
		Quantity: max(len(units), 1), Units: units, Status: status,
	}
}

func capture(e Event, reference, action string) Event {
	e.Reference, e.Action = reference, action
	return e
}

func act(deed Deed, id string, from, to int, outcome Outcome, rest func(*Act)) Act {
	a := Act{
		Deed: deed, OrderID: id, Sent: 1, Attempt: 1, Outcome: outcome,
		Started: time.Duration(from) * time.Millisecond, Ended: time.Duration(to) * time.Millisecond,
	}
	rest(&a)
	return a
}

func cancels(id string, from, to int) Act {
	return act(Cancel, id, from, to, Admitted, func(a *Act) { a.State = cancelled })
}

func pays(id, reference, action string, from, to int) Act {
	return act(Payment, id, from, to, Admitted, func(a *Act) {
		a.Reference, a.Action, a.State = reference, action, paid
		if action == actionRefund {
			a.State = "" // whatever it was
		}
	})
}

func paysInVain(id, reference, reason string, outcome Outcome) Act {
	return act(Payment, id, 0, 1, outcome, func(a *Act) { a.Reference, a.Reason = reference, reason })
}

func payable(o Order, before time.Time) Order { o.PayBefore = before; return o }

func one(s *Sale) { s.Items[0].Stock = 1 }

var settledDown = &Verification{OK: true, Checks: []Check{{Invariant: "I17", OK: true, Detail: "empty"}}}

func TestJudgeOfWholeLives(t *testing.T) {
	x, y := []Call{got("c-1", "k", "x", 0, 1)}, got("c-2", "k", "y", 2, 3)
	for _, tt := range []scene{
		{name: "no feed", calls: x, acts: []Act{pays("x", "r", actionNone, 2, 3)}, orders: []Order{row("x", "c-1", paid, 1)}, not: "I10 I11"},

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
			acts: []Act{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, want: "I4",
			sale: func(s *Sale) { s.Items[0].Quota = 1 },
		},
		{
			name: "I4 the quota is on its way", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-1", "l", "quota_per_buyer", 2003, 2005)},
			acts: []Act{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, sale: func(s *Sale) { s.Items[0].Quota = 1 },
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

		// I7, I18: orders without a key
		{
			name: "I7 no key, and another order after a cancel", calls: []Call{got("c-1", "", "x", 0, 1), got("c-1", "", "y", 8, 9)},
			acts: []Act{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", confirmed, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", cancelled, 1), change(3, "y", "c-1", confirmed, 1)},
		},
		{
			name: "I7 a key outlives its order", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "k", "y", 8, 9)},
			acts: []Act{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", confirmed, 1)}, want: "I7",
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
			name: "I7 no key, and refused before the cancel", calls: []Call{got("c-1", "", "x", 0, 1), refused("c-1", "", "rate_limited", 2, 3)},
			acts: []Act{cancels("x", 4, 5)}, orders: []Order{row("x", "c-1", cancelled, 1)}, want: "I7",
		},
		{
			name: "I7 no key, and refused during the cancel", calls: []Call{got("c-1", "", "x", 0, 1), refused("c-1", "", "rate_limited", 2, 4)},
			acts: []Act{cancels("x", 4, 5)}, orders: []Order{row("x", "c-1", cancelled, 1)},
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
			acts: []Act{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", confirmed, 1)},
		},
		{
			name: "I2 no key, and more orders than calls", calls: []Call{got("c-1", "", "x", 0, 1)}, acts: []Act{cancels("x", 2, 3)},
			orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", confirmed, 1)}, want: "I2",
		},

		// I9: steps in the feed
		{
			name: "I9 paid, then expired", orders: []Order{row("x", "bob", expired, 1)}, want: "I9 I11",
			events: []Event{change(1, "x", "bob", confirmed, 1), capture(change(2, "x", "bob", paid, 1), "r", ""), change(3, "x", "bob", expired, 1)},
		},
		{
			name: "I9 confirmed twice", orders: []Order{row("x", "bob", confirmed, 1)},
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "x", "bob", confirmed, 1)}, want: "I9",
		},
		{name: "I9 expired from nothing", orders: []Order{row("x", "bob", expired, 1)}, events: []Event{change(1, "x", "bob", expired, 1)}, want: "I9"},
		{
			name: "I9 rejected, then confirmed", orders: []Order{row("x", "bob", confirmed, 1)},
			events: []Event{change(1, "x", "bob", rejected), change(2, "x", "bob", confirmed, 1)}, want: "I9",
		},
		{
			name: "I9 the feed does not ascend", orders: []Order{row("x", "bob", confirmed, 1), row("y", "eve", confirmed, 2)},
			events: []Event{change(2, "x", "bob", confirmed, 1), change(1, "y", "eve", confirmed, 2)}, want: "I9",
		},
		{name: "I9 the feed does not know the order", orders: []Order{row("x", "bob", confirmed, 1)}, events: []Event{}, want: "I9"},
		{name: "I9 the list does not know the order", orders: []Order{}, events: []Event{change(1, "x", "bob", confirmed, 1)}, want: "I9"},
		{
			name: "I9 the list is behind the feed", orders: []Order{row("x", "bob", confirmed, 1)},
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "x", "bob", expired, 1)},
		},
		{
			name: "I9 the list is ahead of the feed", orders: []Order{row("x", "bob", expired, 1)},
			events: []Event{change(1, "x", "bob", confirmed, 1)}, want: "I9",
		},
		{
			name: "I9 a refund changed the status", orders: []Order{row("x", "bob", paid, 1)}, want: "I9 I11",
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "x", "bob", expired, 1), capture(change(3, "x", "bob", paid, 1), "r", actionRefund)},
		},
		{
			name: "I9 final for a cancel, and then to be paid", calls: x, orders: []Order{payable(row("x", "c-1", confirmed, 1), noon.Add(time.Hour))},
			acts: []Act{act(Cancel, "x", 2, 3, Refused, func(a *Act) { a.Reason = "order_final" })}, want: "I9",
		},
		{
			name: "I9 cancelled for its buyer, paid in the end", calls: x, acts: []Act{cancels("x", 2, 3)},
			orders: []Order{row("x", "c-1", paid, 1)}, want: "I9",
		},

		// I10
		{
			name: "I10 cancelled, then expired", orders: []Order{row("x", "bob", cancelled, 1)}, want: "I9 I10",
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "x", "bob", cancelled, 1), change(3, "x", "bob", expired, 1)},
		},
		{
			name: "I10 a refund is no second return", orders: []Order{row("x", "bob", cancelled, 1)},
			events: []Event{change(1, "x", "bob", confirmed, 1), change(2, "x", "bob", cancelled, 1), capture(change(3, "x", "bob", cancelled, 1), "r", actionRefund)},
		},

		// I11
		{
			name: "I11 paid, and once more", calls: x, acts: []Act{pays("x", "r", actionNone, 2, 3), pays("x", "r", actionNone, 4, 5), pays("x", "q", actionRefund, 6, 7)},
			orders: []Order{row("x", "c-1", paid, 1)},
			events: []Event{
				change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", paid, 1), "r", actionNone), capture(change(3, "x", "c-1", paid, 1), "q", actionRefund),
			},
		},
		{
			name: "I11 a refund that the feed forgot", calls: x, acts: []Act{pays("x", "r", actionRefund, 2, 3)}, orders: []Order{row("x", "c-1", expired, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)}, want: "I11",
		},
		{
			name: "I11 an unanswered payment may be forgotten", calls: x, acts: []Act{paysInVain("x", "r", "timeout", Lost)}, orders: []Order{row("x", "c-1", expired, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)},
		},
		{
			name: "I11 an unanswered payment is in the feed twice", calls: x, acts: []Act{paysInVain("x", "r", "timeout", Lost)}, orders: []Order{row("x", "c-1", paid, 1)},
			events: []Event{
				change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", paid, 1), "r", ""), capture(change(3, "x", "c-1", paid, 1), "r", actionRefund),
			}, want: "I11",
		},
		{
			name: "I11 told paid, recorded as a refund", calls: x, acts: []Act{pays("x", "r", actionNone, 2, 3)}, orders: []Order{row("x", "c-1", expired, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1), capture(change(3, "x", "c-1", expired, 1), "r", actionRefund)}, want: "I9 I11",
		},
		{
			name: "I11 one reference, two answers", calls: x, acts: []Act{pays("x", "r", actionNone, 2, 3), pays("x", "r", actionRefund, 4, 5)},
			orders: []Order{row("x", "c-1", paid, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", paid, 1), "r", "")}, want: "I11",
		},
		{
			name: "I11 captured and refused", calls: x, acts: []Act{paysInVain("x", "r", "order_final", Refused)}, orders: []Order{row("x", "c-1", expired, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)}, want: "I11",
		},
		{
			name: "I11 recorded for another order", calls: []Call{x[0], y}, acts: []Act{pays("x", "r", actionNone, 2, 3)},
			orders: []Order{row("x", "c-1", confirmed, 1), row("y", "c-2", paid, 2)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "y", "c-2", confirmed, 2), capture(change(3, "y", "c-2", paid, 2), "r", "")}, want: "I9 I11",
		},
		{
			name: "I11 paid by nobody", calls: x, orders: []Order{row("x", "c-1", paid, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", paid, 1), "r", "")}, want: "I11",
		},
		{
			name: "I11 somebody else's payment", orders: []Order{row("x", "bob", paid, 1)},
			events: []Event{change(1, "x", "bob", confirmed, 1), capture(change(2, "x", "bob", paid, 1), "r", "")},
		},
		{
			name: "I11 refunded while it waited for its payment", calls: x, acts: []Act{pays("x", "r", actionRefund, 2, 3)},
			orders: []Order{payable(row("x", "c-1", expired, 1), noon)}, want: "I11",
			events: []Event{change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", confirmed, 1), "r", actionRefund), change(3, "x", "c-1", expired, 1)},
		},
		{
			name: "I11 nothing to pay", calls: x, acts: []Act{pays("x", "r", actionRefund, 2, 3)}, orders: []Order{row("x", "c-1", confirmed, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", confirmed, 1), "r", actionRefund)},
		},

		// I12
		{
			name: "I12 three orders in a window of two", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "l", "y", 2, 3), got("c-1", "m", "z", 4, 59_999)},
			orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", cancelled, 1), row("z", "c-1", confirmed, 1)}, limit: 2, want: "I12",
		},
		{
			name: "I12 three orders in more than a window", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "l", "y", 2, 3), got("c-1", "m", "z", 4, 60_000)},
			orders: []Order{row("x", "c-1", cancelled, 1), row("y", "c-1", cancelled, 1), row("z", "c-1", confirmed, 1)}, limit: 2,
		},
		{
			name: "I12 repeats are not counted", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "k", "x", 2, 3), got("c-1", "k", "x", 4, 5)},
			orders: []Order{row("x", "c-1", confirmed, 1)}, limit: 1,
		},
		{
			name: "I12 counters were forgotten", calls: []Call{got("c-1", "k", "x", 0, 1), got("c-1", "l", "y", 2, 3)},
			orders: []Order{row("x", "c-1", confirmed, 1), row("y", "c-1", confirmed, 2)}, limit: 1, faults: true, not: "I12",
		},

		// I14
		{
			name: "I14 its time to pay is over", calls: x, orders: []Order{payable(row("x", "c-1", confirmed, 1), noon)},
			sale: func(s *Sale) { s.Now = noon.Add(overdue + time.Millisecond) }, want: "I14",
		},
		{
			name: "I14 it is about to expire", calls: x, orders: []Order{payable(row("x", "c-1", confirmed, 1), noon)},
			sale: func(s *Sale) { s.Now = noon.Add(overdue) },
		},

		// I15, I16: units that return
		{
			name: "I15 one unit returned, and another was never sold", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "not_enough", 2, 3)},
			orders: []Order{row("x", "c-1", expired, 1)}, sale: func(s *Sale) { s.Items[0].Stock = 2 }, want: "I15",
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)},
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
			acts: []Act{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, sale: one, want: "I16",
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", cancelled, 1)},
		},
		{
			name: "I16 while the unit is on its way", calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 2202, 2204)},
			acts: []Act{cancels("x", 2, 3)}, orders: []Order{row("x", "c-1", cancelled, 1)}, sale: one,
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", cancelled, 1)},
		},
		{
			name: "I16 after its return and before it was sold again", want: "I16", sale: one,
			calls: []Call{got("c-1", "k", "x", 0, 1), refused("c-2", "k", "sold_out", 3000, 3001), got("c-3", "k", "y", 3002, 3003)},
			looks: []Sighting{look("x", expired, 2, 3)}, orders: []Order{row("x", "c-1", expired, 1), row("y", "c-3", confirmed, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1), change(3, "y", "c-3", confirmed, 1)},
		},
		{
			name: "I16 sold again meanwhile", sale: one,
			calls: []Call{got("c-1", "k", "x", 0, 1), got("c-3", "k", "y", 2999, 3003), refused("c-2", "k", "sold_out", 3000, 3001)},
			looks: []Sighting{look("x", expired, 2, 3)}, orders: []Order{row("x", "c-1", expired, 1), row("y", "c-3", confirmed, 1)},
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
