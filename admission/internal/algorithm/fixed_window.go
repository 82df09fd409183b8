package algorithm

import (
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// A fixedWindow holds the units of one window, which its first unit opened or which is a span of the calendar.
// redisstore/lua/fixed_window.lua is the same in Lua. In its cell, at is the end of the window in µs, exclusive, and n the units;
// the zero value is no window.
type fixedWindow cell

func init() { register(Algorithm{Name: store.FixedWindow, counter: byWindow{}, Calendar: true}) }

// byWindow is the counter of store.FixedWindow.
type byWindow struct{}

func (byWindow) read(s *State, now int64, t *store.Tally) Result {
	return (*fixedWindow)(&s.cell).read(now, &t.Window, t.Limit, t.Cost)
}

func (byWindow) charge(s *State, now int64, t *store.Tally) (Result, int64) {
	return (*fixedWindow)(&s.cell).charge(now, &t.Window, t.Limit, t.Cost)
}

func (byWindow) countRejected(s *State, now int64, t *store.Tally) {
	(*fixedWindow)(&s.cell).countRejected(now, &t.Window, t.Cost)
}

func (byWindow) refund(s *State, _ int64, _ *store.Tally, cost int, stamp int64) {
	(*fixedWindow)(&s.cell).refund(cost, stamp)
}

func (byWindow) ends(s *State, _ *store.Tally) int64 { return s.cell.at }

// current returns the window that is open at now, or the zero value, and the time to use: after a small step back the window's beginning.
func (f *fixedWindow) current(now int64, w *store.Window) (fixedWindow, int64) {
	if now >= f.at {
		return fixedWindow{}, now
	}
	f.cut(now, w)
	if w.Calendar == nil {
		now = max(now, f.at-w.Length.Microseconds())
	}
	return *f, now
}

// cut ends f when a window opened now would end, unless the step back was small: then f is that of the calendar's next span, at most twice
// as long.
func (f *fixedWindow) cut(now int64, w *store.Window) {
	latest, small := now+w.Length.Microseconds(), int64(step)
	if w.Calendar != nil {
		from, to := w.Calendar.Span(time.UnixMicro(now))
		if latest, small = to.UnixMicro(), 0; latest-now <= step {
			small = 2 * to.Sub(from).Microseconds()
		}
	}
	if f.at-latest > small {
		f.at = latest
	}
}

// opened returns the window open at now, or a new one.
func (f *fixedWindow) opened(now int64, w *store.Window) (fixedWindow, int64) {
	open, now := f.current(now, w)
	switch {
	case open.at != 0:
	case w.Calendar == nil:
		open.at = now + w.Length.Microseconds()
	default:
		_, end := w.Calendar.Span(time.UnixMicro(now))
		open.at = end.UnixMicro()
	}
	return open, now
}

// read returns how cost stands at now.
func (f *fixedWindow) read(now int64, w *store.Window, limit, cost int) Result {
	open, now := f.current(now, w)
	s := Result{Remaining: max(0, limit-int(open.n))}
	if int(open.n) > 0 {
		s.ResetAfter = open.at - now
	}
	switch {
	case cost > limit:
		s.Reason = store.CostAboveLimit
	case int(open.n)+cost > limit:
		s.Reason, s.RetryAfter = store.RateLimited, open.at-now
	}
	return s
}

// charge counts cost units; the caller has checked that there is room.
func (f *fixedWindow) charge(now int64, w *store.Window, limit, cost int) (s Result, stamp int64) {
	*f, now = f.opened(now, w)
	f.n += int64(cost)
	return Result{Remaining: max(0, limit-int(f.n)), ResetAfter: f.at - now}, f.at
}

// countRejected counts cost units beyond the limit.
func (f *fixedWindow) countRejected(now int64, w *store.Window, cost int) {
	*f, _ = f.opened(now, w)
	f.n = min(f.n+int64(cost), mostRejected)
}

// refund takes back cost units counted in the window that ends at end. A window without units is closed.
func (f *fixedWindow) refund(cost int, end int64) {
	if end != f.at {
		return
	}
	if f.n -= int64(cost); f.n <= 0 {
		*f = fixedWindow{}
	}
}
