package judge

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// change returns a line of the feed.
func change(seq int64, id, buyer string, status orders.Status, units ...int) Event {
	return Event{
		Seq: seq, OrderID: id, Sale: "s", Item: "a", User: buyer,
		Quantity: max(len(units), 1), Units: units, Status: status,
	}
}

func capture(e Event, reference string, action orders.Action) Event {
	e.Reference, e.Action = reference, action
	return e
}

func operation(kind OperationKind, id string, from, to int, outcome Outcome, rest func(*Operation)) Operation {
	a := Operation{
		Kind: kind, OrderID: id, Sent: 1, Attempt: 1, Outcome: outcome,
		Started: time.Duration(from) * time.Millisecond, Ended: time.Duration(to) * time.Millisecond,
	}
	rest(&a)
	return a
}

func cancels(id string, from, to int) Operation {
	return operation(Cancel, id, from, to, Admitted, func(a *Operation) { a.State = cancelled })
}

func pays(id, reference string, action orders.Action, from, to int) Operation {
	return operation(Payment, id, from, to, Admitted, func(a *Operation) {
		a.Reference, a.Action, a.State = reference, action, paid
		if action == actionRefund {
			a.State = "" // for any state
		}
	})
}

func paysInVain(id, reference, reason string, outcome Outcome) Operation {
	return operation(Payment, id, 0, 1, outcome, func(a *Operation) { a.Reference, a.Reason = reference, reason })
}

func payable(o Order, before time.Time) Order { o.PayBefore = before; return o }

func acceptedAt(o Order, ms int) Order {
	o.AcceptedAt = noon.Add(time.Duration(ms) * time.Millisecond)
	return o
}

func one(s *Sale) { s.Items[0].Stock = 1 }

var settledDown = &Verification{OK: true, Checks: []orders.Check{{Invariant: "I17", OK: true, Detail: "empty"}}}

func TestJudgeOfWholeLives(t *testing.T) {
	x, y := []Call{got("c-1", "k", "x", 0, 1)}, got("c-2", "k", "y", 2, 3)
	for _, tt := range []scene{
		{name: "no feed", calls: x, acts: []Operation{pays("x", "r", actionNone, 2, 3)}, orders: []Order{row("x", "c-1", paid, 1)}, not: "I10 I11"},

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
		{
			name: "I9 the list does not know the order", orders: []Order{}, events: []Event{change(1, "x", "bob", confirmed, 1)},
			sale: func(s *Sale) { s.Fresh = true }, want: "I9",
		},
		{name: "I9 somebody else ordered after the list was read", orders: []Order{}, events: []Event{change(1, "x", "bob", confirmed, 1)}},
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
			acts: []Operation{operation(Cancel, "x", 2, 3, Refused, func(a *Operation) { a.Reason = "order_final" })}, want: "I9",
		},
		{
			name: "I9 cancelled for its buyer, paid in the end", calls: x, acts: []Operation{cancels("x", 2, 3)},
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
			name: "I11 paid, and once more", calls: x, acts: []Operation{pays("x", "r", actionNone, 2, 3), pays("x", "r", actionNone, 4, 5), pays("x", "q", actionRefund, 6, 7)},
			orders: []Order{row("x", "c-1", paid, 1)},
			events: []Event{
				change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", paid, 1), "r", actionNone), capture(change(3, "x", "c-1", paid, 1), "q", actionRefund),
			},
		},
		{
			name: "I11 a refund that the feed forgot", calls: x, acts: []Operation{pays("x", "r", actionRefund, 2, 3)}, orders: []Order{row("x", "c-1", expired, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)}, want: "I11",
		},
		{
			name: "I11 an unanswered payment may be forgotten", calls: x, acts: []Operation{paysInVain("x", "r", "timeout", Lost)}, orders: []Order{row("x", "c-1", expired, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)},
		},
		{
			name: "I11 nobody answered a payment", calls: x, orders: []Order{row("x", "c-1", expired, 1)}, want: "I11",
			acts: []Operation{
				paysInVain("x", "r", "timeout", Lost), operation(Payment, "x", 1000, 10_001, Lost, func(a *Operation) { a.Reference, a.Status, a.Attempt = "r", 500, 2 }),
			},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)},
		},
		{
			name: "I11 an unanswered payment is in the feed twice", calls: x, acts: []Operation{paysInVain("x", "r", "timeout", Lost)}, orders: []Order{row("x", "c-1", paid, 1)},
			events: []Event{
				change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", paid, 1), "r", ""), capture(change(3, "x", "c-1", paid, 1), "r", actionRefund),
			}, want: "I11",
		},
		{
			name: "I11 told paid, recorded as a refund", calls: x, acts: []Operation{pays("x", "r", actionNone, 2, 3)}, orders: []Order{row("x", "c-1", expired, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1), capture(change(3, "x", "c-1", expired, 1), "r", actionRefund)}, want: "I9 I11",
		},
		{
			name: "I11 one reference, two answers", calls: x, acts: []Operation{pays("x", "r", actionNone, 2, 3), pays("x", "r", actionRefund, 4, 5)},
			orders: []Order{row("x", "c-1", paid, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", paid, 1), "r", "")}, want: "I11",
		},
		{
			name: "I11 captured and refused", calls: x, acts: []Operation{paysInVain("x", "r", "order_final", Refused)}, orders: []Order{row("x", "c-1", expired, 1)},
			events: []Event{change(1, "x", "c-1", confirmed, 1), change(2, "x", "c-1", expired, 1)}, want: "I11",
		},
		{
			name: "I11 recorded for another order", calls: []Call{x[0], y}, acts: []Operation{pays("x", "r", actionNone, 2, 3)},
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
			name: "I11 refunded while it waited for its payment", calls: x, acts: []Operation{pays("x", "r", actionRefund, 2, 3)},
			orders: []Order{payable(row("x", "c-1", expired, 1), noon)}, want: "I11",
			events: []Event{change(1, "x", "c-1", confirmed, 1), capture(change(2, "x", "c-1", confirmed, 1), "r", actionRefund), change(3, "x", "c-1", expired, 1)},
		},
		{
			name: "I11 nothing to pay", calls: x, acts: []Operation{pays("x", "r", actionRefund, 2, 3)}, orders: []Order{row("x", "c-1", confirmed, 1)},
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
	} {
		t.Run(tt.name, tt.play)
	}
}
