package algorithm

import (
	"math"

	"github.com/tidegate/tidegate/admission/store"
)

// mostRejected caps the units of a span that also counts refused requests.
const mostRejected = 1_000_000_000

// A slidingCounter holds the units of two adjacent spans of a window's length: the k-th since 1970 and the one before it, whose units are
// assumed to be evenly distributed. redisstore/lua/sliding_counter.lua is the same in Lua. In its cell, at is k, n the units of the k-th
// span, and before those of the one before it.
type slidingCounter cell

func init() { register(Algorithm{Name: store.SlidingCounter, counter: bySpans{}}) }

// bySpans is the counter of store.SlidingCounter.
type bySpans struct{}

func (bySpans) read(s *State, now int64, t *store.Tally) Result {
	return (*slidingCounter)(&s.cell).read(now, micros(t), t.Limit, t.Cost)
}

func (bySpans) charge(s *State, now int64, t *store.Tally) (Result, int64) {
	return (*slidingCounter)(&s.cell).charge(now, micros(t), t.Limit, t.Cost)
}

func (bySpans) countRejected(s *State, now int64, t *store.Tally) {
	(*slidingCounter)(&s.cell).countRejected(now, micros(t), t.Limit, t.Cost)
}

func (bySpans) refund(s *State, _ int64, _ *store.Tally, cost int, stamp int64) {
	(*slidingCounter)(&s.cell).refund(cost, stamp)
}

func (bySpans) ends(s *State, t *store.Tally) int64 { return slidingCounter(s.cell).ends(micros(t)) }

// cut makes all units count in the span of now if c is too far ahead: as many as the limit, unless one span had more.
func (c *slidingCounter) cut(now, window int64, limit int) {
	if c.at*window > now+step {
		*c = slidingCounter{at: now / window, n: max(c.n, min(c.n+c.before, int64(limit)))}
	}
}

// roll returns c at now, and the time passed in its span. After a small step back the time is the beginning of the span that was counted
// in.
func (c slidingCounter) roll(now, window int64) (_ slidingCounter, passed int64) {
	switch k := now / window; {
	case c.at > k:
		return c, 0
	case c.at == k:
	case c.at == k-1:
		c = slidingCounter{at: k, before: c.n}
	default:
		c = slidingCounter{at: k}
	}
	return c, now - c.at*window
}

// weighted returns how many of n units of a span count after passed µs of the next one. The floating-point operations are in the order of
// the script, so that both round the same way.
func weighted(n int64, passed, window int64) int {
	if n == 0 {
		return 0
	}
	return int(math.Ceil(float64(n) * float64(window-passed) / float64(window)))
}

// used returns how many units count after passed µs of the span, at most two windows.
func (c slidingCounter) used(passed, window int64) int {
	if passed < window {
		return int(c.n) + weighted(c.before, passed, window)
	}
	return weighted(c.n, passed-window, window)
}

// read returns how cost stands at now.
func (c *slidingCounter) read(now, window int64, limit, cost int) Result {
	c.cut(now, window, limit)
	rolled, passed := c.roll(now, window)
	used := rolled.used(passed, window)
	s := Result{Remaining: max(0, limit-used)}
	if rolled.n > 0 || rolled.before > 0 {
		s.ResetAfter = rolled.ends(window) - rolled.at*window - passed
	}
	switch {
	case cost > limit:
		s.Reason = store.CostAboveLimit
	case used+cost > limit:
		s.Reason = store.RateLimited
		s.RetryAfter = rolled.wait(passed, window, limit-cost)
	}
	return s
}

// wait returns the time until at most room units count.
func (c slidingCounter) wait(passed, window int64, room int) int64 {
	then := window
	if cur := int(c.n); cur <= room {
		then -= share(room-cur, window, c.before)
	} else {
		then += window - share(room, window, c.n)
	}
	for c.used(then, window) > room { // corrects rounding
		then++
	}
	return then - passed
}

// share returns the part of a window in which room of n evenly distributed units arrive.
func share(room int, window, n int64) int64 {
	return int64(math.Floor(float64(room) * float64(window) / float64(n)))
}

// charge counts cost units; the caller has checked that there is room.
func (c *slidingCounter) charge(now, window int64, limit, cost int) (s Result, stamp int64) {
	rolled, passed := c.roll(now, window)
	rolled.n += int64(cost)
	*c = rolled
	return Result{Remaining: max(0, limit-c.used(passed, window)), ResetAfter: 2*window - passed}, c.at
}

// countRejected counts cost units beyond the limit.
func (c *slidingCounter) countRejected(now, window int64, limit, cost int) {
	c.cut(now, window, limit)
	rolled, _ := c.roll(now, window)
	rolled.n = min(rolled.n+int64(cost), mostRejected)
	*c = rolled
}

// refund takes back cost units counted in the span k.
func (c *slidingCounter) refund(cost int, k int64) {
	switch k {
	case c.at:
		c.n = max(0, c.n-int64(cost))
	case c.at - 1:
		c.before = max(0, c.before-int64(cost))
	}
}

// ends returns when no unit counts any more and k is no longer needed.
func (c slidingCounter) ends(window int64) int64 {
	if c.n > 0 {
		return (c.at + 2) * window
	}
	return (c.at + 1) * window
}
