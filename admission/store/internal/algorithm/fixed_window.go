package algorithm

import (
	"time"

	"github.com/tidegate/tidegate/admission/store"
)

// A fixedWindow holds the units of one window, which its first unit opened or which is a span of the calendar. redisstore/lua/fixed_window.lua is
// the same in Lua. The zero value is no window. It is not safe for concurrent use.
type fixedWindow struct {
	end   int64 // µs, exclusive
	count int
}

// at returns the window that is open at now, or the zero value, and the time to use: after a small step back the window's beginning.
func (f *fixedWindow) at(now int64, w *store.Window) (fixedWindow, int64) {
	if now >= f.end {
		return fixedWindow{}, now
	}
	f.cut(now, w)
	if w.Calendar == nil {
		now = max(now, f.end-w.Length.Microseconds())
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
	if f.end-latest > small {
		f.end = latest
	}
}

// opened returns the window open at now, or a new one.
func (f *fixedWindow) opened(now int64, w *store.Window) (fixedWindow, int64) {
	open, now := f.at(now, w)
	switch {
	case open.end != 0:
	case w.Calendar == nil:
		open.end = now + w.Length.Microseconds()
	default:
		_, end := w.Calendar.Span(time.UnixMicro(now))
		open.end = end.UnixMicro()
	}
	return open, now
}

// read returns how cost stands at now.
func (f *fixedWindow) read(now int64, w *store.Window, limit, cost int) Result {
	open, now := f.at(now, w)
	s := Result{Remaining: max(0, limit-open.count)}
	if open.count > 0 {
		s.ResetAfter = open.end - now
	}
	switch {
	case cost > limit:
		s.Reason = store.CostAboveLimit
	case open.count+cost > limit:
		s.Reason, s.RetryAfter = store.RateLimited, open.end-now
	}
	return s
}

// charge counts cost units; the caller has checked that there is room.
func (f *fixedWindow) charge(now int64, w *store.Window, limit, cost int) (s Result, stamp int64) {
	*f, now = f.opened(now, w)
	f.count += cost
	return Result{Remaining: max(0, limit-f.count), ResetAfter: f.end - now}, f.end
}

// countRejected counts cost units beyond the limit.
func (f *fixedWindow) countRejected(now int64, w *store.Window, cost int) {
	*f, _ = f.opened(now, w)
	f.count = min(f.count+cost, mostRejected)
}

// refund takes back cost units counted in the window that ends at end. A window without units is closed.
func (f *fixedWindow) refund(cost int, end int64) {
	if end != f.end {
		return
	}
	if f.count -= cost; f.count <= 0 {
		*f = fixedWindow{}
	}
}
