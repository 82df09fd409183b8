package algorithm

import (
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/admission/store"
)

// A slidingLog holds the time of every unit that counts, oldest first. A unit counts from its time on for one window, end excluded: at
// most limit units lie in any half-open span of a window's length. redisstore/lua/sliding_log.lua is the same in Lua. The zero
// value is an empty log. It is not safe for concurrent use.
type slidingLog struct {
	times       []int64 // µs
	head        int32   // index of the first unit not dropped
	first, last int64   // copies of the first and last live time: most requests need only these
}

func init() {
	register(Algorithm{Name: store.SlidingLog, counter: byLog{}, Check: func(w Window) string {
		if w.Highest > store.MaxLogged {
			return fmt.Sprintf("sliding_log keeps a time for each unit, at most %d; for a limit of %d use sliding_counter", store.MaxLogged,
				w.Highest)
		}
		return ""
	}})
}

// byLog is the counter of store.SlidingLog.
type byLog struct{}

func (byLog) read(s *State, now int64, t *store.Tally) Result {
	return s.log.read(now, micros(t), t.Limit, t.Cost)
}

func (byLog) charge(s *State, now int64, t *store.Tally) (Result, int64) {
	return s.log.charge(now, micros(t), t.Limit, t.Cost)
}

func (byLog) countRejected(s *State, now int64, t *store.Tally) {
	s.log.countRejected(now, micros(t), t.Limit, t.Cost)
}

func (byLog) refund(s *State, _ int64, _ *store.Tally, cost int, stamp int64) {
	s.log.refund(cost, stamp)
}

func (byLog) ends(s *State, t *store.Tally) int64 { return s.log.ends(micros(t)) }

// live returns how many units count at now, and the time to use: after a small step back that of the newest unit, so that the log stays
// sorted and no unit counts for less than its window. After a larger one units from the future count from now on.
func (l *slidingLog) live(now, window int64) (n int, time int64) {
	n = len(l.times) - int(l.head)
	if n == 0 {
		return 0, now
	}
	if l.last > now+step {
		for i := len(l.times) - 1; i >= int(l.head) && l.times[i] > now; i-- {
			l.times[i] = now
		}
		l.first, l.last = l.times[l.head], now
	}
	now = max(now, l.last)
	if l.first <= now-window {
		n -= notLater(l.times[l.head:], now-window)
	}
	return n, now
}

// notLater returns how many of times, including the first, are not later than edge. It searches in doubling steps, then by bisection.
// Usually the second time is already later, and looking further would cost cache misses.
func notLater(times []int64, edge int64) int {
	low, high := 0, 1
	for high < len(times) && times[high] <= edge {
		low, high = high, high*2
	}
	n, _ := slices.BinarySearch(times[low:min(high, len(times))], edge+1)
	return low + n
}

// read returns how cost stands at now.
func (l *slidingLog) read(now, window int64, limit, cost int) Result {
	n, now := l.live(now, window)
	s := Result{Remaining: max(0, limit-n)}
	if n > 0 {
		s.ResetAfter = l.last + window - now
	}
	// A lowered limit applies to units counted before, so the log may hold more than limit.
	switch over := n + cost - limit; {
	case cost > limit:
		s.Reason = store.CostAboveLimit
	case over > 0:
		ends := l.first
		if at := len(l.times) - n + over - 1; at > int(l.head) {
			ends = l.times[at]
		}
		s.Reason, s.RetryAfter = store.RateLimited, ends+window-now
	}
	return s
}

// add counts cost units and returns their time, and how many units count then.
func (l *slidingLog) add(now, window int64, cost int) (time int64, n int) {
	n, now = l.live(now, window)
	if live := len(l.times) - n; live > int(l.head) {
		l.head = int32(live)
		if n > 0 {
			l.first = l.times[live]
		}
	}
	if n == 0 {
		l.times, l.head, l.first = l.times[:0], 0, now
	}
	if int(l.head) > len(l.times)/2 && len(l.times)+cost > cap(l.times) {
		l.times = l.times[:copy(l.times, l.times[l.head:])] // at most one move per dropped unit
		l.head = 0
	}
	for range cost {
		l.times = append(l.times, now)
	}
	l.last = now
	return now, n + cost
}

// charge counts cost units; the caller has checked that there is room.
func (l *slidingLog) charge(now, window int64, limit, cost int) (s Result, stamp int64) {
	at, n := l.add(now, window, cost)
	return Result{Remaining: max(0, limit-n), ResetAfter: window}, at
}

// countRejected counts cost units beyond the limit, but keeps at most limit: more units would have no further effect.
func (l *slidingLog) countRejected(now, window int64, limit, cost int) {
	if _, n := l.add(now, window, min(cost, limit)); n > limit {
		l.head += int32(n - limit)
		l.first = l.times[l.head]
	}
}

// strike counts n refusals and reports whether they reach limit. If so, it starts again from zero.
func (l *slidingLog) strike(now, window int64, limit, n int) bool {
	l.countRejected(now, window, limit, n)
	if len(l.times)-int(l.head) < limit {
		return false
	}
	*l = slidingLog{}
	return true
}

// refund takes back up to cost units counted at a time.
func (l *slidingLog) refund(cost int, at int64) {
	times := l.times[l.head:]
	from, _ := slices.BinarySearch(times, at)
	to, _ := slices.BinarySearch(times, at+1)
	l.times = slices.Delete(l.times, int(l.head)+max(from, to-cost), int(l.head)+to)
	if len(l.times) == int(l.head) {
		*l = slidingLog{}
		return
	}
	l.first, l.last = l.times[l.head], l.times[len(l.times)-1]
}

// erase removes the cost newest units. If the log holds more than limit, only the newest limit are considered, as the others have no
// effect.
func (l *slidingLog) erase(limit, cost int) {
	l.head = max(l.head, int32(len(l.times)-limit))
	if l.times = l.times[:max(int(l.head), len(l.times)-cost)]; len(l.times) == int(l.head) {
		*l = slidingLog{}
		return
	}
	l.first, l.last = l.times[l.head], l.times[len(l.times)-1]
}

// ends returns when no unit counts any more.
func (l *slidingLog) ends(window int64) int64 {
	if len(l.times) == int(l.head) {
		return 0
	}
	return l.last + window
}
