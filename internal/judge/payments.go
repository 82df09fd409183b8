package judge

import (
	"slices"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// unanswered is how long a payment may be repeated without an answer before that is a breach: the feed was read later, so the
// server was able to answer.
const unanswered = 10 * time.Second

// payments is I11: each captured payment is in the feed once, with the action that the payer got; each paid order was paid once;
// and every other payment is refunded.
func (j *judge) payments() (f Finding) {
	if j.feed == nil {
		return notJudged("the order feed could not be read")
	}
	sent := map[string][]*Operation{}
	for i := range j.h.Operations {
		if a := &j.h.Operations[i]; a.Kind == Payment {
			sent[a.Reference] = append(sent[a.Reference], a)
		}
	}
	for i := range j.h.Operations { // in the order of their first sending
		if a := &j.h.Operations[i]; a.Kind == Payment && sent[a.Reference][0] == a {
			f.Checked++
			j.payment(&f, sent[a.Reference])
		}
	}
	var payments, refunds, orders int
	for _, e := range j.feed.all {
		switch {
		case e.Status == paid && !e.refunds():
			payments++
			if e.Reference == "" {
				f.breach("order %s was paid without a reference (change %d)", e.OrderID, e.Seq)
			}
			if o := j.listed[e.OrderID]; o != nil && o.Status != paid {
				f.breach("payment %s was for order %s, which is %s", e.Reference, e.OrderID, o.Status)
			}
		case e.refunds():
			refunds++
			// The status decides, not the clock: an order that was confirmed when the payment arrived could be paid.
			if o := j.listed[e.OrderID]; e.Status == confirmed && o != nil && !o.PayBefore.IsZero() {
				f.breach("payment %s found order %s %s, but is a refund", e.Reference, e.OrderID, e.Status)
			}
		default:
			continue
		}
		if o := j.listed[e.OrderID]; e.Reference != "" && o != nil && j.ours(o) && len(sent[e.Reference]) == 0 {
			f.breach("payment %s of order %s was never sent", e.Reference, e.OrderID)
		}
	}
	for _, o := range j.unique {
		if o.Status != paid {
			continue
		}
		orders++
		if n := len(j.paidBy(o.OrderID)); n != 1 {
			f.breach("order %s is paid by %d payments, want 1", o.OrderID, n)
		}
	}
	return f.conclude("%s captured = %s paid + %s refunds; %s orders are paid", comma(len(j.feed.captures)), comma(payments), comma(refunds),
		comma(orders))
}

// payment compares the answers to one payment, in all its sendings, with the feed.
func (j *judge) payment(f *Finding, sent []*Operation) {
	a, found, action, refused := sent[0], j.feed.captures[sent[0].Reference], orders.Action(""), false
	for _, s := range sent {
		refused = refused || s.Outcome == Refused
		switch {
		case s.Outcome == Refused && j.listed[s.OrderID] != nil:
			f.breach("payment %s of order %s was refused: %s", a.Reference, a.OrderID, s.Reason)
		case s.Outcome != Admitted:
		case s.Action != actionNone && s.Action != actionRefund:
			f.breach("payment %s of order %s was answered with action %q", a.Reference, a.OrderID, s.Action)
		case action != "" && action != s.Action:
			f.breach("payment %s of order %s was answered %s, then %s", a.Reference, a.OrderID, action, s.Action)
		default:
			action = s.Action
		}
	}
	if spell := sent[len(sent)-1].Ended - a.Started; action == "" && !refused && spell > unanswered {
		f.breach("payment %s of order %s was repeated for %v and never answered", a.Reference, a.OrderID, spell.Round(time.Second))
	}
	switch {
	case len(found) > 1:
		f.breach("payment %s is in the feed %d times", a.Reference, len(found))
	case action != "" && len(found) == 0:
		f.breach("payment %s of order %s was answered %s but is not in the feed", a.Reference, a.OrderID, action)
	case len(found) == 1 && found[0].OrderID != a.OrderID:
		f.breach("payment %s of order %s is in the feed for order %s", a.Reference, a.OrderID, found[0].OrderID)
	case action != "" && found[0].refunds() != (action == actionRefund):
		f.breach("payment %s of order %s was answered %s, but the feed has %s %s", a.Reference, a.OrderID, action, found[0].Status,
			found[0].Action)
	}
}

// paidBy returns the changes that made an order paid.
func (j *judge) paidBy(id string) []*Event {
	return slices.DeleteFunc(slices.Clone(j.feed.of[id]), func(e *Event) bool { return e.Status != paid || e.refunds() })
}

// limits is I12 as far as it is visible outside: no user got more orders within a window than the rules admit. What each call
// was charged for is not visible, but each order was charged at some time between its first call and its answer.
func (j *judge) limits() (f Finding) {
	switch {
	case j.e.Limit == 0:
		return notJudged("no --limit was given")
	case j.e.Faults:
		return notJudged("counters may have been lost")
	}
	type grant struct{ from, to time.Duration }
	grants, most := map[string][]grant{}, 0
	for _, cl := range j.claims {
		for _, id := range cl.ids {
			if j.claimOf[id] != cl {
				continue
			}
			first := slices.IndexFunc(cl.calls, func(call *Call) bool { return call.OrderID == id })
			g := grant{cl.calls[0].Started, cl.calls[first].Ended}
			for _, call := range cl.calls {
				if call.OrderID == id {
					g.to = min(g.to, call.Ended)
				}
			}
			grants[cl.buyer] = append(grants[cl.buyer], g)
		}
	}
	for _, cl := range j.claims { // in order of their first call
		all := grants[cl.buyer]
		if all == nil {
			continue
		}
		delete(grants, cl.buyer)
		f.Checked++
		most = max(most, len(all))
		slices.SortFunc(all, func(a, b grant) int { return int(a.to - b.to) })
		for i := range max(len(all)-j.e.Limit, 0) {
			run := all[i : i+j.e.Limit+1]
			from := slices.MinFunc(run, func(a, b grant) int { return int(a.from - b.from) }).from
			if run[j.e.Limit].to-from < j.e.Window {
				f.breach("%s got %d orders within %v, but the limit is %d", cl.buyer, len(run), j.e.Window, j.e.Limit)
				break
			}
		}
	}
	return f.conclude("%s users, %s orders at most, limit %s in %v", comma(f.Checked), comma(most), comma(j.e.Limit), j.e.Window)
}
