package algorithm

import "github.com/tidegate/tidegate/admission/store"

// A State is what one counter has counted by the algorithm of its tally. The zero value has counted nothing. It is not safe for concurrent
// use. All times are µs.
//
// A sliding log needs only the first 48 bytes.
//
// A stamp from the future is from before the clock was set back. Up to step ahead its time is waited for; further ahead it is cut to the
// most that can be counted now.
type State struct {
	log      slidingLog
	pair     slidingCounter
	fixed    fixedWindow
	schedule gcra
}

// step is how far a clock may be set back without an effect on what has been counted, in µs. redisstore/lua/prelude.lua has it too.
const step = 1_000_000

// A Result is how a cost stands against a tally at a time.
type Result struct {
	Reason     store.Reason // empty: there is room
	Remaining  int          // units
	RetryAfter int64
	ResetAfter int64
}

// Read returns how t stands at now. It counts nothing.
func (s *State) Read(now int64, t *store.Tally) Result {
	if t.Limit <= 0 {
		return Result{Reason: store.CostAboveLimit}
	}
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case store.SlidingCounter:
		return s.pair.read(now, window, t.Limit, t.Cost)
	case store.FixedWindow:
		return s.fixed.read(now, &t.Window, t.Limit, t.Cost)
	case store.GCRA:
		return s.schedule.read(now, window, intervalOf(t.Window.Length, t.Limit), t.Burst, t.Cost)
	case store.TwoStage:
		return twoStage{&s.fixed, &s.log}.read(now, window, t.Base, t.Limit, t.Cost)
	default:
		return s.log.read(now, window, t.Limit, t.Cost)
	}
}

// Charge counts t at now; the caller has checked that there is room.
func (s *State) Charge(now int64, t *store.Tally) (_ Result, stamp int64) {
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case store.SlidingCounter:
		return s.pair.charge(now, window, t.Limit, t.Cost)
	case store.FixedWindow:
		return s.fixed.charge(now, &t.Window, t.Limit, t.Cost)
	case store.GCRA:
		return s.schedule.charge(now, window, intervalOf(t.Window.Length, t.Limit), t.Burst, t.Cost)
	case store.TwoStage:
		return twoStage{&s.fixed, &s.log}.charge(now, window, t.Base, t.Limit, t.Cost)
	default:
		return s.log.charge(now, window, t.Limit, t.Cost)
	}
}

// CountRejected counts t at now, even beyond the limit.
func (s *State) CountRejected(now int64, t *store.Tally) {
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case store.SlidingCounter:
		s.pair.countRejected(now, window, t.Limit, t.Cost)
	case store.FixedWindow:
		s.fixed.countRejected(now, &t.Window, t.Cost)
	case store.GCRA:
		s.schedule.countRejected(now, window, intervalOf(t.Window.Length, t.Limit), t.Burst, t.Cost)
	default: // store.TwoStage: the second stage
		s.log.countRejected(now, window, t.Limit, t.Cost)
	}
}

// Refund takes back the units counted for t under stamp.
func (s *State) Refund(now int64, t *store.Tally, cost int, stamp int64) {
	switch t.Algorithm {
	case store.SlidingCounter:
		s.pair.refund(cost, stamp)
	case store.FixedWindow:
		s.fixed.refund(cost, stamp)
	case store.GCRA:
		s.schedule.refund(now, cost, stamp)
	case store.TwoStage:
		twoStage{&s.fixed, &s.log}.refund(cost, stamp)
	default:
		s.log.refund(cost, stamp)
	}
}

// Erase removes the t.Cost newest units of a sliding log.
func (s *State) Erase(t *store.Tally) { s.log.erase(t.Limit, t.Cost) }

// Strike counts n refusals. It returns whether they reach the limit of strikes, how many count, and when none counts any more.
func (s *State) Strike(now int64, strikes *store.Strikes, n int) (struck bool, counted int, ends int64) {
	window := strikes.Window.Microseconds()
	struck = s.log.strike(now, window, strikes.Limit, n)
	return struck, min(len(s.log.times)-int(s.log.head), strikes.Limit), s.log.ends(window)
}

// Ends returns when the units counted for t no longer count.
func (s *State) Ends(t *store.Tally) int64 {
	switch window := t.Window.Length.Microseconds(); t.Algorithm {
	case store.SlidingCounter:
		return s.pair.ends(window)
	case store.FixedWindow:
		return s.fixed.end
	case store.GCRA:
		return s.schedule.tat
	case store.TwoStage:
		return max(s.fixed.end, s.log.ends(window))
	default:
		return s.log.ends(window)
	}
}

// Capacity returns how many units t admits at once.
func Capacity(t *store.Tally) int {
	switch t.Algorithm {
	case store.GCRA:
		return t.Burst
	case store.TwoStage:
		return t.Base.Limit + t.Limit
	default:
		return t.Limit
	}
}
