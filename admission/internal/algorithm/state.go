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
	log  slidingLog
	cell cell
}

// A cell is the state of one algorithm that does not keep a log. Each is a type of it, and gives its fields a meaning.
type cell struct{ at, n, before int64 }

// step is how far a clock may be set back without an effect on what has been counted, in µs. redisstore/lua/prelude.lua has it too.
const step = 1_000_000

// A Result is how a cost stands against a tally at a time.
type Result struct {
	Reason     store.Reason // empty: there is room
	Remaining  int          // units
	RetryAfter int64
	ResetAfter int64
}

// micros returns the length of t's window in µs.
func micros(t *store.Tally) int64 { return t.Window.Length.Microseconds() }

// Read returns how t stands at now. It counts nothing.
func (s *State) Read(now int64, t *store.Tally) Result {
	if t.Limit <= 0 {
		return Result{Reason: store.CostAboveLimit}
	}
	return Of(t.Algorithm).read(s, now, t)
}

// Charge counts t at now; the caller has checked that there is room.
func (s *State) Charge(now int64, t *store.Tally) (_ Result, stamp int64) {
	return Of(t.Algorithm).charge(s, now, t)
}

// CountRejected counts t at now, even beyond the limit.
func (s *State) CountRejected(now int64, t *store.Tally) { Of(t.Algorithm).countRejected(s, now, t) }

// Refund takes back the units counted for t under stamp.
func (s *State) Refund(now int64, t *store.Tally, cost int, stamp int64) {
	Of(t.Algorithm).refund(s, now, t, cost, stamp)
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
func (s *State) Ends(t *store.Tally) int64 { return Of(t.Algorithm).ends(s, t) }

// Capacity returns how many units t admits at once.
func Capacity(t *store.Tally) int {
	switch a := Of(t.Algorithm); {
	case a.Burst:
		return t.Burst
	case a.Base:
		return t.Base.Limit + t.Limit
	}
	return t.Limit
}
