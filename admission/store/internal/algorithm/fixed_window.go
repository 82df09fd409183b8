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

// at returns the window that is open at now, or the zero value, and the time to use: if the clock was set back before the window, that is
// the window's beginning.
func (f fixedWindow) at(now int64, w *store.Window) (fixedWindow, int64) {
	switch {
	case now >= f.end:
		return fixedWindow{}, now
	case w.Calendar == nil:
		now = max(now, f.end-w.Length.Microseconds())
	}
	return f, now
}

// opened returns the window open at now, or a new one.
func (f fixedWindow) opened(now int64, w *store.Window) (fixedWindow, int64) {
	f, now = f.at(now, w)
	switch {
	case f.end != 0:
	case w.Calendar == nil:
		f.end = now + w.Length.Microseconds()
	default:
		_, end := w.Calendar.Span(time.UnixMicro(now))
		f.end = end.UnixMicro()
	}
	return f, now
}

// read returns how cost stands at now, without changes.
func (f fixedWindow) read(now int64, w *store.Window, limit, cost int) Result {
	f, now = f.at(now, w)
	s := Result{Remaining: max(0, limit-f.count)}
	if f.count > 0 {
		s.ResetAfter = f.end - now
	}
	switch {
	case cost > limit:
		s.Reason = store.CostAboveLimit
	case f.count+cost > limit:
		s.Reason, s.RetryAfter = store.RateLimited, f.end-now
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
