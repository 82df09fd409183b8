package judge

import (
	"cmp"
	"slices"

	"github.com/tidegate/tidegate/orders"
)

// feed is the sorted changes of all orders. Seq is assigned when a change is written, so everything that can only happen after
// a change was committed has a higher one.
type feed struct {
	all        []*Event // by seq
	inOrder    bool     // whether they arrived in order
	of         map[string][]*Event
	captures   map[string][]*Event // by reference
	ownerships map[unit][]ownership
}

type unit struct {
	item string
	n    int
}

// ownership is a period in which a unit had one owner.
type ownership struct {
	order string
	over  bool
}

func newFeed(events []Event) *feed {
	f := &feed{inOrder: true, of: map[string][]*Event{}, captures: map[string][]*Event{}, ownerships: map[unit][]ownership{}}
	for i := range events {
		f.all = append(f.all, &events[i])
		f.inOrder = f.inOrder && (i == 0 || events[i-1].Seq < events[i].Seq)
	}
	slices.SortStableFunc(f.all, func(a, b *Event) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range f.all {
		f.of[e.OrderID] = append(f.of[e.OrderID], e)
		if e.Reference != "" {
			f.captures[e.Reference] = append(f.captures[e.Reference], e)
		}
		if e.refunds() {
			continue
		}
		for _, n := range e.Units {
			at := unit{e.Item, n}
			owners := f.ownerships[at]
			mine := slices.IndexFunc(owners, func(t ownership) bool { return t.order == e.OrderID })
			switch {
			case e.Status == confirmed && mine < 0:
				f.ownerships[at] = append(owners, ownership{order: e.OrderID})
			case returned(e.Status) && mine >= 0:
				owners[mine].over = true
			}
		}
	}
	return f
}

// first returns the first change of the event's order to the event's status; repeated changes are checked by I9 and I10.
func (f *feed) first(e *Event) *Event {
	same := slices.IndexFunc(f.of[e.OrderID], func(o *Event) bool { return o.Status == e.Status && !o.refunds() })
	return f.of[e.OrderID][same]
}

// before reports whether an order had ended when the other was committed, as far as the feed has both.
func (f *feed) before(id, next string) bool {
	end := slices.IndexFunc(f.of[id], func(e *Event) bool { return !e.refunds() && (returned(e.Status) || e.Status == rejected) })
	return end < 0 || len(f.of[next]) == 0 || f.of[id][end].Seq < f.of[next][0].Seq
}

// steps looks for invalid changes, and for differences between the list and the feed, which was read after it.
func (j *judge) steps(f *Finding) {
	if !j.feed.inOrder {
		f.breach("the feed's numbers do not ascend")
	}
	for _, e := range j.feed.all {
		if first := j.feed.of[e.OrderID][0]; e != first {
			continue
		}
		status := orders.Status("")
		for _, step := range j.feed.of[e.OrderID] {
			switch {
			case step.refunds():
				if status != "" && step.Status != status {
					f.breach("order %s was %s, and a refund made it %s", e.OrderID, status, step.Status)
				}
				continue
			case status == "" && (step.Status == confirmed || step.Status == rejected):
			case status == confirmed && (step.Status == paid || returned(step.Status)):
			default:
				f.breach("order %s became %s after %s (change %d)", e.OrderID, step.Status, cmp.Or(status, "nothing"), step.Seq)
			}
			status = step.Status
		}
		o := j.listed[e.OrderID]
		switch {
		case j.rows == nil, o == nil && j.claimOf[e.OrderID] != nil: // I1 reports it
		case status == "" && o != nil && o.Status == accepted: // an early payment
		case o == nil && !j.sale.Fresh: // others may have ordered since the list was read
		case o == nil:
			f.breach("order %s is in the feed but not in the list", e.OrderID)
		case !mayBecome(o.Status, status):
			f.breach("order %s is listed as %s, but the feed ends with %s", e.OrderID, o.Status, status)
		}
	}
	for _, o := range j.unique {
		if o.Status != accepted && len(j.feed.of[o.OrderID]) == 0 {
			f.breach("order %s is %s, but is not in the feed", o.OrderID, o.Status)
		}
	}
}

// returns is I10: an order returns its units at most once.
func (j *judge) returns() (f Finding) {
	units := 0
	for _, e := range j.feed.all {
		if e.refunds() || !returned(e.Status) {
			continue
		}
		ends := slices.DeleteFunc(slices.Clone(j.feed.of[e.OrderID]), func(e *Event) bool { return e.refunds() || !returned(e.Status) })
		if ends[0] != e {
			continue
		}
		f.Checked++
		units += e.Quantity
		if len(ends) > 1 {
			f.breach("order %s was %s (change %d) and %s (change %d)", e.OrderID, e.Status, e.Seq, ends[1].Status, ends[1].Seq)
		}
	}
	return f.conclude("%s orders returned %s units; %s were sold again", comma(f.Checked), comma(units), comma(j.feed.resold()))
}

// resold counts how often a returned unit was sold again.
func (f *feed) resold() (n int) {
	for _, owners := range f.ownerships {
		n += len(owners) - 1
	}
	return n
}
