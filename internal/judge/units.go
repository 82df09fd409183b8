package judge

import (
	"slices"
	"time"
)

// itemUnits is the units of one item according to the list.
type itemUnits struct {
	Item
	held           int  // by live orders
	missing        int  // of orders answered with 202 that are not listed; only I1 reports them
	returned       int  // units that were held and are not any more; without the feed, or with stopped APIs, an upper bound
	rejected       int  // units of rejected orders, which may have been unavailable for a while
	forgot         int  // units that may have been reserved for lost calls, and were lost by Redis, before the last refusal
	asked          int  // wanted by callers that were admitted, or refused because nothing (or too little) was left
	someoneWithout bool // some buyer was refused because too few were left, and got none
	short          int  // the largest quantity that was refused because fewer were left
	soldOut        *Call
}

func (b *itemUnits) unsold() int { return b.Stock - b.held - b.missing }

// excused returns how many units may be unsold in the end without a breach: those that were returned or added, possibly after
// the crowd was gone.
func (b *itemUnits) excused() int { return b.returned + b.rejected + b.forgot + b.Grown }

func (j *judge) unitsByItem() []*itemUnits {
	var all []*itemUnits
	of := map[string]*itemUnits{}
	for _, it := range j.sale.Items {
		b := &itemUnits{Item: it}
		all, of[it.Item] = append(all, b), b
	}
	exact := j.feed != nil && j.h.Stops == nil // a late order had another unit before, which is not in the feed
	for _, o := range j.unique {
		if b := of[o.Item]; b == nil {
			continue
		} else if o.Holds() {
			b.held += o.Quantity
		} else if o.Status == rejected {
			b.rejected += o.Quantity
		} else if !exact {
			b.returned += o.Quantity
		}
	}
	if exact {
		for at, owners := range j.feed.ownerships {
			if b := of[at.item]; b != nil && owners[len(owners)-1].over {
				b.returned++
			}
		}
	}
	j.countClaims(of)
	if j.e.Faults {
		j.forgotten(of)
	}
	return all
}

// countClaims counts what buyers wanted and did not get, and orders that nothing lists.
func (j *judge) countClaims(of map[string]*itemUnits) {
	wanted := map[buyerItem]int{}
	for _, cl := range j.claims {
		b := of[cl.item]
		if b == nil {
			continue
		}
		for _, id := range cl.ids {
			if j.listed[id] == nil && j.claimOf[id] == cl {
				b.missing += cl.quantity
			}
		}
		if len(cl.ids) == 0 && (cl.soldOut || cl.short) {
			b.someoneWithout = true
		}
		if cl.short {
			b.short = max(b.short, cl.quantity)
		}
		if len(cl.ids) > 0 || cl.soldOut || cl.short {
			before := wanted[cl.buyerItem]
			wanted[cl.buyerItem] += cl.quantity
			if b.Quota > 0 { // a buyer cannot get more
				wanted[cl.buyerItem] = min(wanted[cl.buyerItem], b.Quota)
			}
			b.asked += wanted[cl.buyerItem] - before
		}
		for _, call := range cl.calls {
			if call.Reason == "sold_out" && (b.soldOut == nil || call.Ended < b.soldOut.Ended) {
				b.soldOut = call
			}
		}
	}
}

// forgotten counts, for each claim that lost a response before the last refusal, the units that may have been reserved for it:
// they were not promised, so they become free when the server loses its memory.
func (j *judge) forgotten(of map[string]*itemUnits) {
	last := map[string]time.Duration{}
	for _, call := range j.h.Calls {
		if call.Reason == "sold_out" || call.Reason == "not_enough" {
			last[call.Item] = max(last[call.Item], call.Ended)
		}
	}
	for _, cl := range j.claims {
		if b := of[cl.item]; b != nil && slices.ContainsFunc(cl.calls,
			func(call *Call) bool { return call.Outcome == Lost && call.Started < last[cl.item] }) {
			b.forgot += cl.quantity
		}
	}
}

// stock is I3: live orders hold at most the stock, now and at any time.
func (j *judge) stock() (f Finding) {
	held, stock := 0, 0
	for _, b := range j.unitsByItem() {
		f.Checked++
		held, stock = held+b.held, stock+b.Stock
		if b.held > b.Stock {
			f.breach("%s: %d units sold of %d", b.Item.Item, b.held, b.Stock)
		} else if most := j.most(b.Item.Item); most > b.Stock {
			f.breach("%s: %d units sold of %d at one time", b.Item.Item, most, b.Stock)
		}
	}
	return f.conclude("%s of %s units sold", comma(held), comma(stock))
}

// most returns the maximum number of units of the item that live orders held at one time, according to the feed.
func (j *judge) most(item string) (most int) {
	if j.feed == nil {
		return 0
	}
	held := 0
	for _, e := range j.feed.all {
		switch {
		case e.Item != item || e.refunds() || e != j.feed.first(e):
		case e.Status == confirmed:
			held += e.Quantity
			most = max(most, held)
		case returned(e.Status):
			held -= e.Quantity
		}
	}
	return most
}

// units is I5: each unit number, 1 to the stock, belongs to at most one live order, now and at any time, and each committed
// order has the quantity it asked for.
func (j *judge) units() (f Finding) {
	stock, owner := map[string]int{}, map[unit]string{}
	for _, it := range j.sale.Items {
		stock[it.Item] = it.Stock
	}
	for _, o := range j.unique {
		if !o.Holds() || o.Status == accepted { // unit numbers are known from the commit on
			continue
		}
		if len(o.Units) != o.Quantity {
			f.breach("order %s has %d units, but asked for %d", o.OrderID, len(o.Units), o.Quantity)
		}
		for _, n := range o.Units {
			f.Checked++
			at := unit{o.Item, n}
			if other, taken := owner[at]; taken {
				f.breach("unit %d of %s belongs to orders %s and %s", n, o.Item, other, o.OrderID)
			} else if n < 1 || n > stock[o.Item] {
				f.breach("order %s has unit %d of %s, whose stock is %d", o.OrderID, n, o.Item, stock[o.Item])
			}
			owner[at] = o.OrderID
		}
	}
	if j.feed == nil || f.Verdict == Breach {
		return f.conclude("%s units, %s wrong", comma(f.Checked), comma(f.Breaches))
	}
	clear(owner)
	sold := 0
	for _, e := range j.feed.all {
		if e.refunds() || e != j.feed.first(e) {
			continue
		}
		for _, n := range e.Units {
			switch at := (unit{e.Item, n}); {
			case e.Status == confirmed:
				sold++
				if other, taken := owner[at]; taken {
					f.breach("unit %d of %s was sold to order %s (change %d) while order %s held it", n, e.Item, e.OrderID, e.Seq, other)
				}
				owner[at] = e.OrderID
			case returned(e.Status) && owner[at] == e.OrderID:
				delete(owner, at)
			}
		}
	}
	return f.conclude("%s units held, sold %s times, never to two at once", comma(f.Checked), comma(sold))
}

// balance is I6 from outside: free units and units of live orders add up to the stock. This is only stable between two reads if
// no others buy.
func (j *judge) balance() (f Finding) {
	switch {
	case !j.sale.Fresh:
		return notJudged("others may buy from the sale, and verify did not report on it")
	case j.sale.State == "recovering", j.e.Verify == nil || !j.e.Verify.Settled():
		return notJudged("units are still being returned, and verify did not report on them")
	}
	free, held := 0, 0
	for _, b := range j.unitsByItem() {
		f.Checked++
		free, held = free+b.Free, held+b.held
		if b.missing == 0 && b.Free+b.held != b.Stock { // it is unknown where the units of missing orders are
			f.breach("%s: %d free and %d held units do not add up to the stock of %d", b.Item.Item, b.Free, b.held, b.Stock)
		}
	}
	return f.conclude("%s free + %s held = stock", comma(free), comma(held))
}
