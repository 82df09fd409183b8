package rehearse

import (
	"slices"
	"time"
)

// soldOutCache is how old a "sold out" may be when it is said.
const soldOutCache = 200 * time.Millisecond

// book is the units of one item as the list shows them.
type book struct {
	Item
	held     int // by live orders
	missing  int // of orders answered 202 that are not listed: I1's matter, and nobody else's
	returned int // by orders that held units and no longer do
	asked    int // wanted by callers that were admitted, or told that nothing (or too little) was left
	short    int // the most that one buyer asked for and was told that fewer are left
	soldOut  *Call
}

func (b *book) unsold() int { return b.Stock - b.held - b.missing }

func (c *court) books() []*book {
	var all []*book
	of := map[string]*book{}
	for _, it := range c.sale.Items {
		b := &book{Item: it}
		all, of[it.Item] = append(all, b), b
	}
	for _, o := range c.unique {
		if b := of[o.Item]; b == nil {
			continue
		} else if o.holds() {
			b.held += o.Quantity
		} else {
			b.returned += o.Quantity
		}
	}
	wanted := map[buyerItem]int{}
	for _, cl := range c.claims {
		b := of[cl.item]
		if b == nil {
			continue
		}
		for _, id := range cl.ids {
			if c.listed[id] == nil && c.held[id] == cl {
				b.missing += cl.quantity
			}
		}
		if cl.short {
			b.short = max(b.short, cl.quantity)
		}
		if len(cl.ids) > 0 || cl.soldOut || cl.short {
			before := wanted[cl.buyerItem]
			wanted[cl.buyerItem] += cl.quantity
			if b.Quota > 0 { // nobody may have more
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
	return all
}

// stock is I3: live orders hold at most the stock.
func (c *court) stock() (f Finding) {
	held, stock := 0, 0
	for _, b := range c.books() {
		f.Checked++
		held, stock = held+b.held, stock+b.Stock
		if b.held > b.Stock {
			f.breach("%s: %d units sold of %d", b.Item.Item, b.held, b.Stock)
		}
	}
	return f.conclude("%s of %s units sold", comma(held), comma(stock))
}

// quota is I4: the live orders of a buyer hold at most the quota of the item.
func (c *court) quota() (f Finding) {
	limits, most := map[string]int{}, 0
	for _, it := range c.sale.Items {
		if it.Quota > 0 {
			limits[it.Item] = it.Quota
		}
	}
	if len(limits) == 0 {
		return notJudged("the quota is not known")
	}
	held := map[buyerItem]int{}
	for _, o := range c.unique {
		limit, known := limits[o.Item]
		if !known || o.Buyer == "" || !o.holds() {
			continue
		}
		who := buyerItem{o.Buyer, o.Item}
		before := held[who]
		held[who] += o.Quantity
		most = max(most, held[who])
		if before <= limit && held[who] > limit {
			f.breach("%s holds more than %d of %s with order %s", o.Buyer, limit, o.Item, o.OrderID)
		}
	}
	f.Checked = len(held)
	return f.conclude("%s buyers, %s units at most", comma(len(held)), comma(most))
}

// units is I5: each unit number, 1 to the stock, belongs to at most one live order, and each committed order has as many as it asked for.
func (c *court) units() (f Finding) {
	type unit struct {
		item string
		n    int
	}
	stock, owner := map[string]int{}, map[unit]string{}
	for _, it := range c.sale.Items {
		stock[it.Item] = it.Stock
	}
	for _, o := range c.unique {
		if !o.holds() || o.Status == accepted { // numbers are known from the commit on
			continue
		}
		if len(o.Units) != o.Quantity {
			f.breach("order %s has %d units and asked for %d", o.OrderID, len(o.Units), o.Quantity)
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
	return f.conclude("%s units, %s wrong", comma(f.Checked), comma(f.Breaches))
}

// undersold is I15: where at least the stock was wanted, all of it is sold. Units that came back after the wave had nobody left to take
// them, and a buyer who wants three does not take the last two.
func (c *court) undersold() (f Finding) {
	sold, stock, asked := 0, 0, 0
	for _, b := range c.books() {
		asked += b.asked
		if b.asked < b.Stock {
			continue
		}
		f.Checked++
		sold, stock = sold+b.Stock-b.unsold(), stock+b.Stock
		if left := b.unsold(); left > b.returned && left >= b.short {
			f.breach("%s: %d units wanted and %d of %d unsold", b.Item.Item, b.asked, left, b.Stock)
		}
	}
	if f.Checked == 0 {
		return notJudged("demand of " + comma(asked) + " units did not reach the stock")
	}
	return f.conclude("%s of %s units sold at a demand of %s", comma(sold), comma(stock), comma(asked))
}

// soldOut is I16. From outside, "sold out" was a lie where units are unsold in the end that nobody returned, or where, with nothing ever
// returned, somebody who came later than the cache's age still got one.
func (c *court) soldOut() (f Finding) {
	said := map[string]int{}
	for i := range c.h.Calls {
		if c.h.Calls[i].Reason == "sold_out" {
			said[c.h.Calls[i].Item]++
			f.Checked++
		}
	}
	if f.Checked == 0 {
		return notJudged("nobody was told sold out")
	}
	for _, b := range c.books() {
		if b.soldOut == nil {
			continue
		}
		if left := b.unsold(); left > b.returned {
			f.breach("%s: said %d times and %d of %d units are unsold", b.Item.Item, said[b.Item.Item], left, b.Stock)
			continue
		}
		late := b.soldOut.Ended + soldOutCache
		i := slices.IndexFunc(c.claims, func(cl *claim) bool {
			return cl.item == b.Item.Item && len(cl.ids) > 0 && cl.calls[0].Started > late
		})
		if i >= 0 && b.returned == 0 {
			f.breach("%s: said at %v, and order %s got a unit at %v", b.Item.Item, b.soldOut.Ended, c.claims[i].ids[0], c.claims[i].calls[0].Started)
		}
	}
	return f.conclude("said %s times, nothing speaks against it", comma(f.Checked))
}
