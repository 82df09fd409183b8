package rehearse

import (
	"cmp"
	"slices"
	"strings"
)

// Judge holds a history against what the server shows after the drain: one finding per invariant, in order. It is a pure function.
// orders is the whole list of the sale's orders; nil means that it could not be read, and then what needs it is not judged. verify may
// be nil. Orders of buyers without the history's prefix are other people's, unless the sale is fresh.
func Judge(h *History, orders []Order, verify *Verification, sale Sale) []Finding {
	c := newCourt(h, orders, sale)
	judged := map[string]Finding{
		"I7": c.keys(), "I9": c.forward(), "I20": c.sent(),
		"I6":  notJudged("free units are inside; verify did not say"),
		"I10": notJudged("returns are inside; verify did not say"),
		"I11": notJudged("this crowd pays nothing; verify did not say"),
		"I12": notJudged("counters are inside; verify did not say"),
		"I17": notJudged("queues are inside; verify did not say"),
	}
	if orders != nil {
		judged["I1"], judged["I3"], judged["I4"], judged["I5"] = c.persisted(), c.stock(), c.quota(), c.units()
		judged["I2"], judged["I8"], judged["I18"] = c.origins()
		judged["I13"], judged["I14"], judged["I15"], judged["I16"] = c.hours(), c.ends(), c.undersold(), c.soldOut()
	}
	said := map[string][]Check{}
	if verify != nil {
		for _, check := range verify.Checks {
			said[check.Invariant] = append(said[check.Invariant], check)
		}
	}
	if orders == nil { // the server's word that nothing is lost does not replace the list
		said["I1"] = slices.DeleteFunc(said["I1"], func(c Check) bool { return c.OK })
	}
	var found []Finding
	add := func(invariant, title string, f Finding) {
		f.Invariant, f.Title = invariant, title
		found = append(found, f.merge(said[invariant]))
		delete(said, invariant)
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
			if _, unknown := said[check.Invariant]; unknown { // to this judge
				add(check.Invariant, "by verify", notJudged(""))
			}
		}
		if sound && !verify.OK {
			said["verify"] = []Check{{Detail: "not ok, and no check says why"}}
			add("verify", "its own verdict", notJudged(""))
		}
	}
	return found
}

// court is the evidence, put in order. It is read only once made.
type court struct {
	h      *History
	sale   Sale
	rows   []Order // as listed, an id may come twice
	listed map[string]*Order
	unique []*Order // first rows of each id
	claims []*claim // in order of their first call
	byKey  map[claimKey]*claim
	buyers map[buyerItem][]*claim
	held   map[string]*claim // by order id answered 202
}

type buyerItem struct{ buyer, item string }

type claimKey struct {
	buyerItem
	key string
}

// claim is what a buyer asked under one key, over all attempts and double clicks.
type claim struct {
	claimKey
	quantity int
	calls    []*Call  // by start
	ids      []string // distinct, answered 202
	lost     int      // attempts
	open     bool     // some lost attempt was never followed by a definite answer
	refused  bool     // some attempt
	soldOut  bool     // refused with sold_out, and holds nothing
	short    bool     // refused with not_enough, and holds nothing
}

func newCourt(h *History, orders []Order, sale Sale) *court {
	c := &court{
		h: h, sale: sale, rows: orders, listed: make(map[string]*Order, len(orders)), byKey: map[claimKey]*claim{},
		buyers: map[buyerItem][]*claim{}, held: map[string]*claim{},
	}
	for i := range orders {
		o := &orders[i]
		if c.listed[o.OrderID] == nil {
			c.listed[o.OrderID] = o
			c.unique = append(c.unique, o)
		}
	}
	for i := range h.Calls {
		c.enter(&h.Calls[i])
	}
	for _, cl := range c.claims {
		cl.settle()
		for _, id := range cl.ids {
			if c.held[id] == nil {
				c.held[id] = cl
			}
		}
	}
	return c
}

func (c *court) enter(call *Call) {
	at := claimKey{buyerItem{call.Buyer, call.Item}, call.Key}
	cl := c.byKey[at]
	if cl == nil {
		cl = &claim{claimKey: at, quantity: call.Quantity}
		c.byKey[at] = cl
		c.claims = append(c.claims, cl)
		c.buyers[at.buyerItem] = append(c.buyers[at.buyerItem], cl)
	}
	cl.calls = append(cl.calls, call)
}

// settle concludes from the calls what became of the claim.
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
			// An answer that was under way together with the lost one says nothing of it.
			if !slices.ContainsFunc(cl.calls[i:], func(later *Call) bool { return later.Outcome != Lost && later.Started >= call.Ended }) {
				cl.open = true
			}
		}
	}
	if len(cl.ids) > 0 {
		cl.soldOut, cl.short = false, false
	}
}

// ours tells whether the order is of this crowd, or must be because nobody else was there.
func (c *court) ours(o *Order) bool { return c.sale.Fresh || strings.HasPrefix(o.Buyer, c.h.Prefix) }
