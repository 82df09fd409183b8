package admission

import "math"

// mostRejected is the most units that a number which also counts refused requests grows to.
const mostRejected = 1_000_000_000

// A slidingCounter holds the units of two adjoining spans of a window's length: of the k-th since 1970 and of the one before it, whose
// units count as if they had come evenly. lua/sliding_counter.lua is the same in Lua. The zero value has counted nothing. It is
// not safe for concurrent use.
type slidingCounter struct {
	k         int64
	cur, prev int32 // a limit is no higher than MaxLimit
}

// roll returns c as it is at now, and the time passed in its span. A clock that has stepped back waits at the beginning of the
// span that was counted in.
func (c slidingCounter) roll(now, window int64) (_ slidingCounter, passed int64) {
	switch k := now / window; {
	case c.k > k:
		return c, 0
	case c.k == k:
	case c.k == k-1:
		c = slidingCounter{k: k, prev: c.cur}
	default:
		c = slidingCounter{k: k}
	}
	return c, now - c.k*window
}

// weighted is how many of n units of a span count when so much of the next one has passed. The order of the floating-point steps is that
// of the script, so that both round alike.
func weighted(n int32, passed, window int64) int {
	if n == 0 {
		return 0
	}
	return int(math.Ceil(float64(n) * float64(window-passed) / float64(window)))
}

// used is how many units count when so much of the span has passed, at most two windows.
func (c slidingCounter) used(passed, window int64) int {
	if passed < window {
		return int(c.cur) + weighted(c.prev, passed, window)
	}
	return weighted(c.cur, passed-window, window)
}

// read tells how cost stands at now and changes nothing.
func (c slidingCounter) read(now, window int64, limit, cost int) standing {
	c, passed := c.roll(now, window)
	used := c.used(passed, window)
	s := standing{remaining: max(0, limit-used)}
	if c.cur > 0 || c.prev > 0 {
		s.resetAfter = c.ends(window) - c.k*window - passed
	}
	switch {
	case cost > limit:
		s.reason = CostAboveLimit
	case used+cost > limit:
		s.reason = RateLimited
		s.retryAfter = c.wait(passed, window, limit-cost)
	}
	return s
}

// wait is how long it takes until no more than room units count.
func (c slidingCounter) wait(passed, window int64, room int) int64 {
	then := window
	if cur := int(c.cur); cur <= room {
		then -= share(room-cur, window, c.prev)
	} else {
		then += window - share(room, window, c.cur)
	}
	for c.used(then, window) > room { // by rounding
		then++
	}
	return then - passed
}

// share is the part of a window in which room of n units come.
func share(room int, window int64, n int32) int64 {
	return int64(math.Floor(float64(room) * float64(window) / float64(n)))
}

// charge counts cost units, for which there is room.
func (c *slidingCounter) charge(now, window int64, limit, cost int) (s standing, stamp int64) {
	rolled, passed := c.roll(now, window)
	rolled.cur += int32(cost)
	*c = rolled
	return standing{remaining: max(0, limit-c.used(passed, window)), resetAfter: 2*window - passed}, c.k
}

// countRejected counts cost units beyond the limit.
func (c *slidingCounter) countRejected(now, window int64, cost int) {
	rolled, _ := c.roll(now, window)
	rolled.cur = int32(min(int(rolled.cur)+cost, mostRejected))
	*c = rolled
}

// refund takes back cost units counted in the span k.
func (c *slidingCounter) refund(cost int, k int64) {
	switch k {
	case c.k:
		c.cur = int32(max(0, int(c.cur)-cost))
	case c.k - 1:
		c.prev = int32(max(0, int(c.prev)-cost))
	}
}

// ends is when nothing counts any more, and k needs not be known any longer.
func (c slidingCounter) ends(window int64) int64 {
	if c.cur > 0 {
		return (c.k + 2) * window
	}
	return (c.k + 1) * window
}
