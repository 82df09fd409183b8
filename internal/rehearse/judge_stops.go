package rehearse

import (
	"slices"
	"time"
)

// What a recovery did without is late: when the process that stood still wakes up, its orders are given other units, or are rejected. Until
// then nobody knows of them, and their buyers may be refused, or be given another order for the same key (docs/recovery.md). No more than
// that is forgiven here: an order that was late is listed, and of two orders for a key one is rejected.

const (
	// stopSlack is how far apart a stop may be from the times that somebody noted for it.
	stopSlack = time.Second
	// handsOver is how long a process that woke up takes until others know what it knows.
	handsOver = 5 * time.Second
)

// apart finds the stops for whose time the order may have been known to nobody but the process that stood still: the claim was made there
// before, and was answered with this order, or lost the answer: a 503 says nothing of what happened.
func (c *court) apart(cl *claim, id string) (all stops) {
	for _, s := range c.h.Stops {
		from := s.From.Sub(c.h.StartedAt) - stopSlack
		if slices.ContainsFunc(cl.calls, func(call *Call) bool {
			return call.API == s.API && call.Started <= from+2*stopSlack && (call.OrderID == id || call.Outcome == Lost)
		}) {
			all = append(all, stop{from, s.Until.Sub(c.h.StartedAt) + handsOver})
		}
	}
	return all
}

// stop is how long what one process knew was unknown to all others, in the clock of the crowd.
type stop struct{ from, until time.Duration }

type stops []stop

// around tells whether the call was decided in one of them.
func (all stops) around(call *Call) bool {
	return slices.ContainsFunc(all, func(s stop) bool { return call.Ended >= s.from && call.Started <= s.until })
}

// cameTooLate tells whether the order was rejected because a recovery did without it. Its key may be another order's.
func (c *court) cameTooLate(cl *claim, id string) bool {
	o := c.listed[id]
	return o != nil && o.Status == rejected && c.apart(cl, id) != nil
}

// wokeLate tells whether the order can be what came of a lost answer of the claim, beside n that were found already, when the process that
// owed the answer woke up.
func (c *court) wokeLate(cl *claim, o *Order, n int) bool {
	apart := c.apart(cl, o.OrderID)
	switch {
	case apart == nil || n >= cl.lost:
		return false
	case o.Status == rejected:
		return true
	}
	return len(cl.ids)+n == 0 && !slices.ContainsFunc(cl.calls, func(call *Call) bool { return call.Outcome == Refused && !apart.around(call) })
}
