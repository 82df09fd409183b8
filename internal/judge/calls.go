package judge

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidegate/tidegate/orders"
)

// sent is I20: every planned call was sent.
func (j *judge) sent() (f Finding) {
	f.Checked = j.h.Planned
	first := map[int]int{}
	for i := range j.h.Calls {
		if call := &j.h.Calls[i]; call.Attempt == 1 && call.Seq < j.h.Planned {
			first[call.Seq]++
		}
	}
	if len(first) != j.h.Planned {
		f.breach("%d calls planned, %d sent", j.h.Planned, len(first))
	}
	for _, seq := range slices.Sorted(maps.Keys(first)) {
		if n := first[seq]; n > 1 {
			f.breach("call %d was sent %d times as if it were the first", seq, n)
		}
	}
	return f.conclude("%s of %s", comma(len(first)), comma(j.h.Planned))
}

// keys is I7: a key gives one order, its holder is never refused, and an order has one key. Without a key, this holds until the
// order ends unpaid.
func (j *judge) keys() (f Finding) {
	repeats := 0
	for _, cl := range j.claims {
		f.Checked++
		ids := slices.DeleteFunc(slices.Clone(cl.ids), func(id string) bool { return j.rejectedAfterStop(cl, id) })
		for i, id := range ids[:max(len(ids)-1, 0)] {
			// Two calls may overtake each other.
			if next := ids[i+1]; cl.key == "" && (j.mayHaveEndedBefore(id, next) || j.mayHaveEndedBefore(next, id)) {
				continue
			}
			f.breach("%s of %s gave orders %s", cl.name(), cl.buyer, strings.Join(cl.ids, " and "))
			break
		}
		for _, call := range cl.calls {
			if call.Outcome == Admitted {
				repeats++
			}
		}
		if id := j.gotEndedOrder(cl); id != "" {
			f.breach("%s without a key got order %s, which had ended unpaid", cl.buyer, id)
		}
		if call, id := j.refusedHolder(cl); call != nil {
			f.breach("%s of %s held order %s and was refused: %s", cl.name(), cl.buyer, id, call.Reason)
		}
		for _, id := range cl.ids {
			if other := j.claimOf[id]; other != cl {
				f.breach("order %s was returned for %s of %s and for %s of %s", id, other.name(), other.buyer, cl.name(), cl.buyer)
			}
		}
	}
	return f.conclude("%s keys, %s repeats of a 202", comma(f.Checked), comma(max(repeats-len(j.claimOf), 0)))
}

// refusedHolder returns a call that was refused although its buyer knew of the order, which had not ended.
func (j *judge) refusedHolder(cl *claim) (refused *Call, id string) {
	since := map[string]time.Duration{} // when the buyer first knew of each order
	for _, call := range cl.calls {
		if at, known := since[call.OrderID]; call.Outcome == Admitted && (!known || call.Ended < at) {
			since[call.OrderID] = call.Ended
		}
	}
	for _, call := range cl.calls {
		if call.Outcome != Refused {
			continue
		}
		for _, id := range cl.ids {
			if call.Started <= since[id] {
				continue
			}
			if at, ended := j.earliestEnd(id); cl.key == "" && ended && call.Ended >= at {
				continue
			}
			if j.stopsThatHid(cl, id).cover(call) {
				continue
			}
			return call, id
		}
	}
	return nil, ""
}

// gotEndedOrder returns an order that a buyer without a key got long after its end, when it must not be found without a key any
// more.
func (j *judge) gotEndedOrder(cl *claim) string {
	if cl.key != "" || j.e.Faults {
		return ""
	}
	for _, call := range cl.calls {
		if at, over := j.endSeen[call.OrderID]; call.Outcome == Admitted && over && call.Started > at+ReturnTravel {
			return call.OrderID
		}
	}
	return ""
}

// mayHaveEndedBefore reports whether an order can have ended unpaid before the other one was accepted.
func (j *judge) mayHaveEndedBefore(id, next string) bool {
	if j.rows == nil {
		return true
	}
	if _, ended := j.earliestEnd(id); !ended {
		return false
	}
	return j.feed == nil || j.feed.before(id, next)
}

// forward is I9: no buyer saw a status after one that it cannot follow, and each order's changes in the feed are valid steps.
// Reads that overlapped in time are not compared.
func (j *judge) forward() (f Finding) {
	seen := j.statusReads()
	const after = time.Duration(1<<63 - 1) // the list was read after everything
	for _, o := range j.unique {
		if looks := seen[o.OrderID]; len(looks) > 0 {
			seen[o.OrderID] = append(looks, StatusRead{OrderID: o.OrderID, State: o.Status, Started: after, Ended: after})
		}
	}
	looked := 0
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		looks := seen[id]
		f.Checked++
		looked += len(looks)
		slices.SortStableFunc(looks, func(a, b StatusRead) int { return cmp.Compare(a.Ended, b.Ended) })
		if a, b, ok := backward(looks); ok {
			f.breach("order %s was %s, then %s", id, a, b)
		}
	}
	for _, a := range j.h.Operations {
		if o := j.listed[a.OrderID]; a.Reason == "order_final" && o != nil && o.Status == confirmed && !o.PayBefore.IsZero() {
			f.breach("order %s could not be cancelled because it was final, but waits for payment", a.OrderID)
		}
	}
	if j.feed == nil {
		return f.conclude("%s orders, %s looks; the feed could not be read", comma(f.Checked), comma(looked))
	}
	j.steps(&f)
	return f.conclude("%s orders, %s looks, %s changes in the feed", comma(f.Checked), comma(looked), comma(len(j.e.Events)))
}

// backward returns the first two statuses, one read completely before the other, that no order can go through.
func backward(looks []StatusRead) (from, to orders.Status, found bool) {
	for i, a := range looks {
		for _, b := range looks[i+1:] {
			if a.Ended < b.Started && !mayBecome(a.State, b.State) {
				return a.State, b.State, true
			}
		}
	}
	return "", "", false
}

// mayBecome reports whether an order can go from one status to the other, including steps that were not seen.
func mayBecome(from, to orders.Status) bool {
	switch {
	case from == to, from == accepted && isStatus(to):
		return true
	case from == confirmed:
		return to == paid || returned(to)
	}
	return false
}

func isStatus(s orders.Status) bool {
	switch s {
	case accepted, confirmed, paid, cancelled, expired, rejected:
		return true
	}
	return false
}

// returned reports whether an order of this status has returned its units.
func returned(status orders.Status) bool { return status == cancelled || status == expired }
