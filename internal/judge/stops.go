package judge

import (
	"slices"
	"time"
)

// A recovery may go on without a stopped process. When that process resumes, its orders get other units, or are rejected. Until
// then no other process has them, and their buyers may be refused, or get another order for the same key (docs/recovery.md).
// Nothing else is excused here: a late order is listed, and of two orders for a key one is rejected.

const (
	// stopSlack is the tolerance of the recorded times of a stop.
	stopSlack = time.Second
	// handOver is how long a resumed process may take to hand over its orders.
	handOver = 5 * time.Second
)

// stopsThatHid returns the stops during which only the stopped process may have had the order: a call of the claim went to it before,
// and got this order, or lost its response, because a 503 leaves the outcome open.
func (j *judge) stopsThatHid(cl *claim, id string) (all stops) {
	for _, s := range j.h.Stops {
		from := s.From.Sub(j.h.StartedAt) - stopSlack
		if slices.ContainsFunc(cl.calls, func(call *Call) bool {
			return call.API == s.API && call.Started <= from+2*stopSlack && (call.OrderID == id || call.Outcome == Lost)
		}) {
			all = append(all, stop{from, s.Until.Sub(j.h.StartedAt) + handOver})
		}
	}
	return all
}

// stop is the time during which orders of one process were unknown to all others, in the crowd's clock.
type stop struct{ from, until time.Duration }

type stops []stop

// cover reports whether the call was decided during one of the stops.
func (all stops) cover(call *Call) bool {
	return slices.ContainsFunc(all, func(s stop) bool { return call.Ended >= s.from && call.Started <= s.until })
}

// rejectedAfterStop reports whether the order was rejected because a recovery went on without it. Its key may belong to another
// order.
func (j *judge) rejectedAfterStop(cl *claim, id string) bool {
	o := j.listed[id]
	return o != nil && o.Status == rejected && j.stopsThatHid(cl, id) != nil
}

// deliveredAfterStop reports whether the order can be the result of a lost response of the claim, in addition to n orders that were
// explained before, delivered when the stopped process resumed.
func (j *judge) deliveredAfterStop(cl *claim, o *Order, n int) bool {
	apart := j.stopsThatHid(cl, o.OrderID)
	switch {
	case apart == nil || n >= cl.lost:
		return false
	case o.Status == rejected:
		return true
	}
	return len(cl.ids)+n == 0 && !slices.ContainsFunc(cl.calls, func(call *Call) bool { return call.Outcome == Refused && !apart.cover(call) })
}
