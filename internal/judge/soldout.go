package judge

import (
	"math"
	"slices"
	"time"
)

const (
	// soldOutCache is the maximum age of a "sold out" answer.
	soldOutCache = 200 * time.Millisecond
	// ReturnTravel is how long a returned unit may take until it can be sold again. Workers that are stopped for longer do not sell a unit
	// wrongly, but make the judge report I16; a run that stops them sets Evidence.Faults.
	ReturnTravel = 2 * time.Second
)

// undersold is I15: if at least the stock was wanted, and some buyer got nothing, all of it is sold. Units that were returned
// or added may have come when no buyer was left (I16 checks those who still were), and a buyer who wants three does not take
// the last two.
func (j *judge) undersold() (f Finding) {
	sold, stock, asked, late := 0, 0, 0, 0
	for _, b := range j.unitsByItem() {
		asked += b.asked
		if b.asked < b.Stock {
			continue
		}
		f.Checked++
		sold, stock, late = sold+b.Stock-b.unsold(), stock+b.Stock, late+max(min(b.unsold(), b.excused()), 0)
		if left := b.unsold(); b.someoneWithout && left > b.excused() && left-b.excused() >= b.short {
			f.breach("%s: %d units were requested, but %d of %d are unsold", b.Item.Item, b.asked, left, b.Stock)
		}
	}
	if f.Checked == 0 {
		return notJudged("demand of " + comma(asked) + " units did not reach the stock")
	}
	detail := comma(sold) + " of " + comma(stock) + " units sold at a demand of " + comma(asked)
	if late > 0 {
		detail += ", " + comma(late) + " came back late"
	}
	return f.conclude("%s", detail)
}

// soldOut is I16: "sold out" was wrong if units are unsold in the end that were there from the beginning and never sold, or if
// more units were free during the whole call than can have been reserved unseen.
func (j *judge) soldOut() (f Finding) {
	refused := map[string][]*Call{}
	for i := range j.h.Calls {
		if call := &j.h.Calls[i]; call.Reason == "sold_out" {
			refused[call.Item] = append(refused[call.Item], call)
			f.Checked++
		}
	}
	if f.Checked == 0 {
		return notJudged("no call was answered sold_out")
	}
	for _, b := range j.unitsByItem() {
		calls := refused[b.Item.Item]
		if len(calls) == 0 {
			continue
		}
		if left := b.unsold(); left > b.excused() {
			f.breach("%s: answered sold_out %d times, but %d of %d units are unsold", b.Item.Item, len(calls), left, b.Stock)
			continue
		}
		if j.e.Faults {
			continue // units may be in transit, or held by an order that got another unit in the end
		}
		if j.feed != nil {
			idle := j.freeIntervals(b)
			for _, call := range calls {
				if n := idle.covering(call.Started, call.Ended); n > b.rejected+b.missing {
					f.breach("%s: answered sold_out to %s at %v while %d units were free; a return may take %v", b.Item.Item, call.Buyer, call.Ended, n,
						ReturnTravel)
				}
			}
			continue
		}
		late := b.soldOut.Ended + soldOutCache
		i := slices.IndexFunc(j.claims, func(cl *claim) bool {
			return cl.item == b.Item.Item && len(cl.ids) > 0 && cl.calls[0].Started > late
		})
		if i >= 0 && b.excused() == 0 {
			f.breach("%s: answered sold_out at %v, but order %s got a unit at %v", b.Item.Item, b.soldOut.Ended, j.claims[i].ids[0],
				j.claims[i].calls[0].Started)
		}
	}
	return f.conclude("%s answers, none contradicted", comma(f.Checked))
}

// intervals are times in which units were certainly free, in the crowd's clock.
type intervals struct{ from, to []time.Duration }

// freeIntervals returns when units of the item were certainly free: from the beginning until the first call of the order that may have
// taken the unit, and from the time when the crowd knew of that order's end, plus the time for the unit's return, until the
// first call of the next one.
func (j *judge) freeIntervals(b *itemUnits) (s intervals) {
	for n := 1; n <= b.Stock-b.Grown; n++ {
		from, known := time.Duration(0), true
		for _, t := range j.feed.ownerships[unit{b.Item.Item, n}] {
			if known {
				s.add(from, j.earliestReservation(t.order))
			}
			from, known = j.endSeen[t.order], t.over
			if _, seen := j.endSeen[t.order]; !seen {
				known = false
			}
			from += ReturnTravel + soldOutCache
		}
		if known {
			s.add(from, math.MaxInt64)
		}
	}
	slices.Sort(s.from)
	slices.Sort(s.to)
	return s
}

// earliestReservation returns the earliest time at which the order can have got its units; 0 if the crowd does not know.
func (j *judge) earliestReservation(id string) time.Duration {
	if cl := j.claimOf[id]; cl != nil && cl.key != "" {
		return cl.calls[0].Started
	}
	var earliest time.Duration
	if o := j.listed[id]; o != nil {
		for i, cl := range j.buyers[buyerItem{o.User, o.Item}] {
			if first := cl.calls[0].Started; i == 0 || first < earliest {
				earliest = first
			}
		}
	}
	return earliest
}

func (s *intervals) add(from, to time.Duration) {
	if from < to {
		s.from, s.to = append(s.from, from), append(s.to, to)
	}
}

// covering returns the minimum number of spells that cover the whole time.
func (s *intervals) covering(from, to time.Duration) int {
	begun, _ := slices.BinarySearch(s.from, from+1)
	ended, _ := slices.BinarySearch(s.to, to)
	return begun - ended
}
