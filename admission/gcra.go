package admission

import (
	"math"
	"time"
)

// A gcra is the virtual scheduling algorithm of ITU-T I.371: the theoretical arrival time is when everything counted would have come
// at an even rate, and it may be ahead of the clock by a burst. lua/gcra.lua is the same in Lua. The zero value has
// counted nothing. It is not safe for concurrent use.
type gcra struct {
	tat      int64 // µs: theoretical arrival time of the next unit
	interval int64 // µs between two units, when it was counted last
}

// intervalOf is the time between two units, rounded up so that no window admits more than its limit and the burst.
func intervalOf(window time.Duration, limit int) int64 {
	return (window.Microseconds() + int64(limit) - 1) / int64(limit)
}

// level is how far the arrival time is ahead of now. A changed limit acts on what was counted: so many units are so many.
// A clock that has stepped back makes nobody wait for more than the burst.
func (g gcra) level(now, interval int64, burst int) int64 {
	level := max(0, g.tat-now)
	if g.interval != interval && level > 0 {
		level = int64(math.Ceil(float64(level) * float64(interval) / float64(g.interval)))
	}
	return min(level, int64(burst)*interval)
}

// read tells how cost stands at now and changes nothing.
func (g gcra) read(now, interval int64, burst, cost int) standing {
	level, most := g.level(now, interval, burst), int64(burst)*interval
	s := standing{remaining: int((most - level) / interval), resetAfter: level}
	switch {
	case cost > burst:
		s.reason = CostAboveLimit
	case level+int64(cost)*interval > most:
		s.reason, s.retryAfter = RateLimited, level+int64(cost)*interval-most
	}
	return s
}

// charge counts cost units, for which there is room.
func (g *gcra) charge(now, interval int64, burst, cost int) (s standing, stamp int64) {
	level := g.level(now, interval, burst) + int64(cost)*interval
	*g = gcra{now + level, interval}
	return standing{remaining: int((int64(burst)*interval - level) / interval), resetAfter: level}, g.tat
}

// countRejected counts cost units beyond the burst, but no more than it takes to fill it.
func (g *gcra) countRejected(now, interval int64, burst, cost int) {
	level := g.level(now, interval, burst) + int64(min(cost, burst))*interval
	*g = gcra{now + min(level, int64(burst)*interval), interval}
}

// refund takes back what is left at now of cost units that were charged up to tat.
func (g *gcra) refund(now int64, cost int, tat int64) {
	g.tat -= min(int64(cost)*g.interval, max(0, tat-now))
}
