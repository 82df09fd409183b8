package algorithm

import (
	"math"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// A gcra is the virtual scheduling algorithm of ITU-T I.371. The theoretical arrival time is when all counted units would have arrived at
// an even rate; it may be ahead of the clock by at most a burst. redisstore/lua/gcra.lua is the same in Lua. The zero value has counted nothing. It
// is not safe for concurrent use.
type gcra struct {
	tat      int64 // µs: theoretical arrival time of the next unit
	interval int64 // µs between two units, at the last count
}

// intervalOf returns the time between two units, rounded up so that no window admits more than its limit and the burst.
func intervalOf(window time.Duration, limit int) int64 {
	return (window.Microseconds() + int64(limit) - 1) / int64(limit)
}

// level returns how far the theoretical arrival time is ahead of now. A changed limit keeps the number of counted units. The level is
// capped at the burst. If the arrival time is further ahead than any limit of this window has set it, the clock was set back; it drains from
// now on.
func (g *gcra) level(now, window, interval int64, burst int) int64 {
	if full := int64(burst) * g.interval; g.tat-now > max(full, 2*window) {
		g.tat = now + full
	}
	level := max(0, g.tat-now)
	if g.interval != interval && level > 0 {
		level = int64(math.Ceil(float64(level) * float64(interval) / float64(g.interval)))
	}
	return min(level, int64(burst)*interval)
}

// read returns how cost stands at now.
func (g *gcra) read(now, window, interval int64, burst, cost int) Result {
	level, most := g.level(now, window, interval, burst), int64(burst)*interval
	s := Result{Remaining: int((most - level) / interval), ResetAfter: level}
	switch {
	case cost > burst:
		s.Reason = store.CostAboveLimit
	case level+int64(cost)*interval > most:
		s.Reason, s.RetryAfter = store.RateLimited, level+int64(cost)*interval-most
	}
	return s
}

// charge counts cost units; the caller has checked that there is room.
func (g *gcra) charge(now, window, interval int64, burst, cost int) (s Result, stamp int64) {
	level := g.level(now, window, interval, burst) + int64(cost)*interval
	*g = gcra{now + level, interval}
	return Result{Remaining: int((int64(burst)*interval - level) / interval), ResetAfter: level}, g.tat
}

// countRejected counts cost units beyond the limit, but no more than fill the burst.
func (g *gcra) countRejected(now, window, interval int64, burst, cost int) {
	level := g.level(now, window, interval, burst) + int64(min(cost, burst))*interval
	*g = gcra{now + min(level, int64(burst)*interval), interval}
}

// refund takes back those of cost units, charged up to tat, that still count at now.
func (g *gcra) refund(now int64, cost int, tat int64) {
	g.tat -= min(int64(cost)*g.interval, max(0, tat-now))
}
