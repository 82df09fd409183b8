package algorithm

import (
	"math"

	"github.com/tidegate/tidegate/admission/store"
)

// mostRejected caps the units of a span that also counts refused requests.
const mostRejected = 1_000_000_000

// A slidingCounter holds the units of two adjacent spans of a window's length: the k-th since 1970 and the one before it, whose units are
// assumed to be evenly distributed. redisstore/lua/sliding_counter.lua is the same in Lua. The zero value has counted nothing. It is not safe for
// concurrent use.
type slidingCounter struct {
	k         int64
	cur, prev int32 // fits: a limit is at most store.MaxLimit
}

// cut makes all units count in the span of now if c is too far ahead: as many as the limit, unless one span had more.
func (c *slidingCounter) cut(now, window int64, limit int) {
	if c.k*window > now+step {
		all := min(int64(c.cur)+int64(c.prev), int64(limit))
		*c = slidingCounter{k: now / window, cur: max(c.cur, int32(all))}
	}
}

// roll returns c at now, and the time passed in its span. After a small step back the time is the beginning of the span that was counted
// in.
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

// weighted returns how many of n units of a span count after passed µs of the next one. The floating-point operations are in the order of
// the script, so that both round the same way.
func weighted(n int32, passed, window int64) int {
	if n == 0 {
		return 0
	}
	return int(math.Ceil(float64(n) * float64(window-passed) / float64(window)))
}

// used returns how many units count after passed µs of the span, at most two windows.
func (c slidingCounter) used(passed, window int64) int {
	if passed < window {
		return int(c.cur) + weighted(c.prev, passed, window)
	}
	return weighted(c.cur, passed-window, window)
}

// read returns how cost stands at now.
func (c *slidingCounter) read(now, window int64, limit, cost int) Result {
	c.cut(now, window, limit)
	rolled, passed := c.roll(now, window)
	used := rolled.used(passed, window)
	s := Result{Remaining: max(0, limit-used)}
	if rolled.cur > 0 || rolled.prev > 0 {
		s.ResetAfter = rolled.ends(window) - rolled.k*window - passed
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
	if cur := int(c.cur); cur <= room {
		then -= share(room-cur, window, c.prev)
	} else {
		then += window - share(room, window, c.cur)
	}
	for c.used(then, window) > room { // corrects rounding
		then++
	}
	return then - passed
}

// share returns the part of a window in which room of n evenly distributed units arrive.
func share(room int, window int64, n int32) int64 {
	return int64(math.Floor(float64(room) * float64(window) / float64(n)))
}

// charge counts cost units; the caller has checked that there is room.
func (c *slidingCounter) charge(now, window int64, limit, cost int) (s Result, stamp int64) {
	rolled, passed := c.roll(now, window)
	rolled.cur += int32(cost)
	*c = rolled
	return Result{Remaining: max(0, limit-c.used(passed, window)), ResetAfter: 2*window - passed}, c.k
}

// countRejected counts cost units beyond the limit.
func (c *slidingCounter) countRejected(now, window int64, limit, cost int) {
	c.cut(now, window, limit)
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

// ends returns when no unit counts any more and k is no longer needed.
func (c slidingCounter) ends(window int64) int64 {
	if c.cur > 0 {
		return (c.k + 2) * window
	}
	return (c.k + 1) * window
}
