package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// Findings compares a history with what the server shows after the drain, and returns one finding per invariant, in order. It is a
// pure function. Orders of buyers without the history's prefix belong to others, unless the sale is fresh.
func Findings(h *History, e Evidence) []Finding {
	c := newJudge(h, e)
	verify := e.Verify
	judged := map[string]Finding{
		"I7": c.keys(), "I9": c.forward(), "I11": c.payments(), "I12": c.limits(), "I20": c.sent(),
		"I10": notJudged("the order feed could not be read"),
		"I17": notJudged("queues are not visible from outside, and verify did not report on them"),
		"I19": notJudged("epochs are not visible from outside; chaos tests check them"),
	}
	if e.Orders != nil {
		judged["I1"], judged["I3"], judged["I4"], judged["I5"], judged["I6"] = c.persisted(), c.stock(), c.quota(), c.units(), c.balance()
		judged["I2"], judged["I8"], judged["I18"] = c.origins()
		judged["I13"], judged["I14"], judged["I15"], judged["I16"] = c.hours(), c.ends(), c.undersold(), c.soldOut()
	}
	if e.Events != nil {
		judged["I10"] = c.returns()
	}
	verified := map[string][]orders.Check{}
	if verify != nil {
		for _, check := range verify.Checks {
			verified[check.Invariant] = append(verified[check.Invariant], check)
		}
	}
	if e.Orders == nil { // the server's own check that nothing is lost does not replace the list
		verified["I1"] = slices.DeleteFunc(verified["I1"], func(c orders.Check) bool { return c.OK })
	}
	var found []Finding
	add := func(invariant, title string, f Finding) {
		f.Invariant, f.Title = invariant, title
		found = append(found, f.merge(verified[invariant]))
		delete(verified, invariant)
	}
	for _, t := range titles {
		f, ok := judged[t.invariant]
		if !ok {
			f = notJudged("the orders could not be listed")
		}
		add(t.invariant, t.title, f)
	}
	if verify != nil {
		sound := true
		for _, check := range verify.Checks {
			sound = sound && check.OK
			if _, unknown := verified[check.Invariant]; unknown { // to this judge
				add(check.Invariant, "by verify", notJudged(""))
			}
		}
		if sound && !verify.OK {
			verified["verify"] = []orders.Check{{Detail: "not ok, but no check failed"}}
			add("verify", "overall result", notJudged(""))
		}
	}
	return found
}

// judge is the indexed evidence. It is read-only after newJudge.
type judge struct {
	h       *History
	e       Evidence
	sale    Sale
	rows    []Order // as listed; an id may be listed twice
	listed  map[string]*Order
	unique  []*Order // first row of each id
	claims  []*claim // in order of their first call
	byKey   map[claimKey]*claim
	buyers  map[buyerItem][]*claim
	claimOf map[string]*claim        // by order id answered with 202
	feed    *feed                    // nil = it could not be read
	endSeen map[string]time.Duration // when the crowd first saw that an order was cancelled or expired
}

type buyerItem struct{ buyer, item string }

type claimKey struct {
	buyerItem
	key string
}

// claim is what a buyer asked for under one key, in all attempts and double clicks. Without a key, buyer and item are the key
// until the order ends unpaid; then the same claim may get another order.
type claim struct {
	claimKey
	quantity int
	calls    []*Call  // by start
	ids      []string // distinct, answered with 202
	lost     int      // attempts
	open     bool     // some lost attempt was not followed by a definite answer
	refused  bool     // some attempt
	soldOut  bool     // refused with sold_out, and holds nothing
	short    bool     // refused with not_enough, and holds nothing
}

func newJudge(h *History, e Evidence) *judge {
	c := &judge{
		h: h, e: e, sale: e.Sale, rows: e.Orders, listed: make(map[string]*Order, len(e.Orders)), byKey: map[claimKey]*claim{},
		buyers: map[buyerItem][]*claim{}, claimOf: map[string]*claim{}, endSeen: map[string]time.Duration{},
	}
	for i := range e.Orders {
		o := &e.Orders[i]
		if c.listed[o.OrderID] == nil {
			c.listed[o.OrderID] = o
			c.unique = append(c.unique, o)
		}
	}
	for i := range h.Calls {
		c.addCall(&h.Calls[i])
	}
	for _, cl := range c.claims {
		cl.settle()
		for _, id := range cl.ids {
			if c.claimOf[id] == nil {
				c.claimOf[id] = cl
			}
		}
	}
	if e.Events != nil {
		c.feed = newFeed(e.Events)
	}
	for id, looks := range c.statusReads() {
		for _, s := range looks {
			if at, known := c.endSeen[id]; returned(s.State) && (!known || s.Ended < at) {
				c.endSeen[id] = s.Ended
			}
		}
	}
	return c
}

// doubleClick is how long after an order was accepted a repeat is answered from memory, which may not have its commit.
const doubleClick = 100 * time.Millisecond

// statusReads returns the statuses of orders that the crowd saw, by order. The response to a double click does not count.
func (j *judge) statusReads() map[string][]StatusRead {
	seen, given := make(map[string][]StatusRead, len(j.claimOf)), make(map[string]time.Duration, len(j.claimOf))
	for _, call := range j.h.Calls {
		if at, known := given[call.OrderID]; call.Outcome == Admitted && (!known || call.Ended < at) {
			given[call.OrderID] = call.Ended
		}
	}
	for _, call := range j.h.Calls {
		if call.Outcome == Admitted && call.State != "" && !(call.State == accepted && call.Started < given[call.OrderID]+doubleClick) {
			seen[call.OrderID] = append(seen[call.OrderID],
				StatusRead{OrderID: call.OrderID, State: call.State, Started: call.Started, Ended: call.Ended})
		}
	}
	for _, a := range j.h.Operations {
		if a.Outcome == Admitted && a.State != "" {
			seen[a.OrderID] = append(seen[a.OrderID], StatusRead{OrderID: a.OrderID, State: a.State, Started: a.Started, Ended: a.Ended})
		}
	}
	for _, s := range j.h.StatusReads {
		seen[s.OrderID] = append(seen[s.OrderID], s)
	}
	return seen
}

// earliestEnd returns the earliest time at which an order may have returned its units: 0 if the crowd did not cancel it, because the
// crowd does not have the clock of its payment time. ok is false for an order that never returned them.
func (j *judge) earliestEnd(id string) (at time.Duration, ok bool) {
	o := j.listed[id]
	if o == nil || o.Status != rejected && !returned(o.Status) {
		return 0, false
	}
	if o.Status != cancelled {
		return 0, true
	}
	i := slices.IndexFunc(j.h.Operations, func(a Operation) bool { return a.Kind == Cancel && a.OrderID == id })
	if i < 0 {
		return 0, true // cancelled by another client
	}
	return j.h.Operations[i].Started, true
}

func (j *judge) addCall(call *Call) {
	at := claimKey{buyerItem{call.Buyer, call.Item}, call.Key}
	cl := j.byKey[at]
	if cl == nil {
		cl = &claim{claimKey: at, quantity: call.Quantity}
		j.byKey[at] = cl
		j.claims = append(j.claims, cl)
		j.buyers[at.buyerItem] = append(j.buyers[at.buyerItem], cl)
	}
	cl.calls = append(cl.calls, call)
}

// name returns the key as findings name it.
func (cl *claim) name() string {
	if cl.key == "" {
		return "no key"
	}
	return "key " + cl.key
}

// settle derives the result of the claim from its calls.
func (cl *claim) settle() {
	slices.SortStableFunc(cl.calls, func(a, b *Call) int { return cmp.Compare(a.Started, b.Started) })
	for i, call := range cl.calls {
		switch call.Outcome {
		case Admitted:
			if !slices.Contains(cl.ids, call.OrderID) {
				cl.ids = append(cl.ids, call.OrderID)
			}
		case Refused:
			cl.refused = true
			cl.soldOut = cl.soldOut || call.Reason == "sold_out"
			cl.short = cl.short || call.Reason == "not_enough"
		case Lost:
			cl.lost++
			// A response that overlapped with the lost attempt does not show its outcome.
			if !slices.ContainsFunc(cl.calls[i:], func(later *Call) bool { return later.Outcome != Lost && later.Started >= call.Ended }) {
				cl.open = true
			}
		}
	}
	if len(cl.ids) > 0 {
		cl.soldOut, cl.short = false, false
	}
}

func (j *judge) ours(o *Order) bool { return o.Of(j.h.Prefix, j.sale) }
