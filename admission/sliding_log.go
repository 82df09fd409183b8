package admission

import (
	"slices"
	"time"
)

// A slidingLog holds the time of every unit admitted, oldest first. A unit counts from its own time on for one window, without
// the end: at most limit units lie in any half-open span of a window's length. lua/sliding_log.lua is the same in Lua.
// The zero value is an empty log. It is not safe for concurrent use.
type slidingLog struct {
	times []int64 // µs
	head  int     // times before it have been dropped
}

// A reading is what a log says about a cost at a time.
type reading struct {
	Count
	now  int64 // µs: the time it is in this log
	gone int   // units that count no more
}

// read tells how cost stands at now and changes nothing. A clock that has stepped back waits at the newest unit, so that the
// log stays in order and no unit counts for less than its window.
func (l *slidingLog) read(now int64, window time.Duration, limit, cost int) reading {
	times := l.times[l.head:]
	if n := len(times); n > 0 {
		now = max(now, times[n-1])
	}
	length := window.Microseconds()
	gone, _ := slices.BinarySearch(times, now-length+1)
	live := times[gone:]

	r := reading{now: now, gone: gone}
	r.Remaining = max(0, limit-len(live))
	if len(live) > 0 {
		r.ResetAfter = micros(live[len(live)-1] + length - now)
	}
	// A lowered limit acts on units counted before: the log may hold more than it.
	switch over := len(live) + cost - limit; {
	case cost > limit:
		r.Reason = CostAboveLimit
	case over > 0:
		r.Reason = RateLimited
		r.RetryAfter = micros(live[over-1] + length - now)
	}
	return r
}

// charge counts cost units at the time of r, which must be the last reading, and returns how the log stands then.
func (l *slidingLog) charge(r reading, window time.Duration, cost int) Count {
	l.head += r.gone
	if l.head > len(l.times)/2 && len(l.times)+cost > cap(l.times) {
		l.times = l.times[:copy(l.times, l.times[l.head:])] // moved at most once per unit dropped
		l.head = 0
	}
	for range cost {
		l.times = append(l.times, r.now)
	}
	r.Remaining -= cost
	r.ResetAfter = window
	return r.Count
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
