package judge

import "slices"

// quota is I4: the live orders of a buyer hold at most the quota of the item, now and at any time; returned units no longer
// count.
func (j *judge) quota() (f Finding) {
	limits, most := map[string]int{}, 0
	for _, it := range j.sale.Items {
		if it.Quota > 0 {
			limits[it.Item] = it.Quota
		}
	}
	if len(limits) == 0 {
		return notJudged("the quota is unknown")
	}
	held := map[buyerItem]int{}
	hold := func(buyer, item string, quantity int, order, when string) {
		limit, known := limits[item]
		if !known || buyer == "" {
			return
		}
		who := buyerItem{buyer, item}
		before := held[who]
		held[who] += quantity
		most = max(most, held[who])
		if before <= limit && held[who] > limit {
			f.breach("%s %s more than %d of %s with order %s", buyer, when, limit, item, order)
		}
	}
	for _, o := range j.unique {
		if o.Holds() {
			hold(o.User, o.Item, o.Quantity, o.OrderID, "holds")
		}
	}
	f.Checked = len(held)
	if j.feed != nil && f.Verdict != Breach {
		clear(held)
		for _, e := range j.feed.all {
			switch {
			case e.refunds(), e != j.feed.first(e):
			case e.Status == confirmed:
				hold(e.User, e.Item, e.Quantity, e.OrderID, "held")
			case returned(e.Status):
				hold(e.User, e.Item, -e.Quantity, e.OrderID, "")
			}
		}
		f.Checked = max(f.Checked, len(held))
	}
	if !j.e.Faults {
		j.keptQuota(&f, limits)
	}
	return f.conclude("%s buyers, %s units at most", comma(f.Checked), comma(most))
}

// keptQuota looks for buyers who were refused for their quota although they had some of it left: even with all their orders
// that had not ended well before, the request fits.
func (j *judge) keptQuota(f *Finding, limits map[string]int) {
	orders := map[buyerItem][]*Order{}
	for _, o := range j.unique {
		who := buyerItem{o.User, o.Item}
		orders[who] = append(orders[who], o)
	}
	for _, cl := range j.claims {
		limit, known := limits[cl.item]
		lost := slices.ContainsFunc(j.buyers[cl.buyerItem], func(cl *claim) bool {
			return slices.ContainsFunc(cl.ids, func(id string) bool { return j.listed[id] == nil })
		})
		if !known || lost { // I1 reports lost orders
			continue
		}
		for _, call := range cl.calls {
			if call.Reason != "quota_per_buyer" {
				continue
			}
			held := 0
			for _, o := range orders[cl.buyerItem] {
				if at, over := j.endSeen[o.OrderID]; !over || call.Started <= at+ReturnTravel {
					held += o.Quantity
				}
			}
			if held+call.Quantity <= limit {
				f.breach("%s was refused for the quota of %d of %s, but had %d and asked for %d", cl.buyer, limit, cl.item, held, call.Quantity)
			}
		}
	}
}
