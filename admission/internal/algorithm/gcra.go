package algorithm

import (
	"fmt"
	"math"
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// A gcra is the virtual scheduling algorithm of ITU-T I.371. The theoretical arrival time is when all counted units would have arrived at
// an even rate; it may be ahead of the clock by at most a burst. redisstore/lua/gcra.lua is the same in Lua. In its cell, at is the
// theoretical arrival time of the next unit and n the µs between two units at the last count.
type gcra cell

func init() { register(Algorithm{Name: store.GCRA, counter: evenly{}, Burst: true, Check: checkGCRA}) }

// evenly is the counter of store.GCRA.
type evenly struct{}

func (evenly) read(s *State, now int64, t *store.Tally) Result {
	return (*gcra)(&s.cell).read(now, micros(t), intervalOf(t.Window.Length, t.Limit), t.Burst, t.Cost)
}

func (evenly) charge(s *State, now int64, t *store.Tally) (Result, int64) {
	return (*gcra)(&s.cell).charge(now, micros(t), intervalOf(t.Window.Length, t.Limit), t.Burst, t.Cost)
}

func (evenly) countRejected(s *State, now int64, t *store.Tally) {
	(*gcra)(&s.cell).countRejected(now, micros(t), intervalOf(t.Window.Length, t.Limit), t.Burst, t.Cost)
}

func (evenly) refund(s *State, now int64, _ *store.Tally, cost int, stamp int64) {
	(*gcra)(&s.cell).refund(now, cost, stamp)
}

func (evenly) ends(s *State, _ *store.Tally) int64 { return s.cell.at }

// maxDrain is the longest time that a full burst may take to drain.
const maxDrain = 10 * 366 * 24 * time.Hour

func checkGCRA(w Window) string {
	if fastest := w.Length / (100 * time.Microsecond); int64(w.Highest) > int64(fastest) {
		return fmt.Sprintf("gcra lets at most one unit pass in 100 µs, which is %d in %v; for a limit of %d use sliding_counter", fastest,
			w.Length, w.Highest)
	}
	if w.Lowest > 0 && float64(w.Burst)*float64(w.Length)/float64(w.Lowest) > float64(maxDrain) {
		return fmt.Sprintf("a burst of %d at %d in %v takes more than ten years to pass", w.Burst, w.Lowest, w.Length)
	}
	return ""
}

// intervalOf returns the time between two units, rounded up so that no window admits more than its limit and the burst.
func intervalOf(window time.Duration, limit int) int64 {
	return (window.Microseconds() + int64(limit) - 1) / int64(limit)
}

// level returns how far the theoretical arrival time is ahead of now. A changed limit keeps the number of counted units. The level is
// capped at the burst. If the arrival time is further ahead than any limit of this window has set it, the clock was set back; it
// drains from now on.
func (g *gcra) level(now, window, interval int64, burst int) int64 {
	if full := int64(burst) * g.n; g.at-now > max(full, 2*window) {
		g.at = now + full
	}
	level := max(0, g.at-now)
	if g.n != interval && level > 0 {
		level = int64(math.Ceil(float64(level) * float64(interval) / float64(g.n)))
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
	*g = gcra{at: now + level, n: interval}
	return Result{Remaining: int((int64(burst)*interval - level) / interval), ResetAfter: level}, g.at
}

// countRejected counts cost units beyond the limit, but no more than fill the burst.
func (g *gcra) countRejected(now, window, interval int64, burst, cost int) {
	level := g.level(now, window, interval, burst) + int64(min(cost, burst))*interval
	*g = gcra{at: now + min(level, int64(burst)*interval), n: interval}
}

// refund takes back those of cost units, charged up to tat, that still count at now.
func (g *gcra) refund(now int64, cost int, tat int64) {
	g.at -= min(int64(cost)*g.n, max(0, tat-now))
}
