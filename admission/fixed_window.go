package admission

import "time"

// A fixedWindow holds the units of one window, which its first unit opened or which is a span of the calendar. lua/fixed_window.lua is
// the same in Lua. The zero value is no window. It is not safe for concurrent use.
type fixedWindow struct {
	end   int64 // µs, exclusive
	count int
}

// at returns the window that is open at now, or the zero value, and the time to use: if the clock was set back before the window, that is
// the window's beginning.
func (f fixedWindow) at(now int64, w *Window) (fixedWindow, int64) {
	switch {
	case now >= f.end:
		return fixedWindow{}, now
	case w.Calendar == nil:
		now = max(now, f.end-w.Length.Microseconds())
	}
	return f, now
}

// opened returns the window open at now, or a new one.
func (f fixedWindow) opened(now int64, w *Window) (fixedWindow, int64) {
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
func (f fixedWindow) read(now int64, w *Window, limit, cost int) standing {
	f, now = f.at(now, w)
	s := standing{remaining: max(0, limit-f.count)}
	if f.count > 0 {
		s.resetAfter = f.end - now
	}
	switch {
	case cost > limit:
		s.reason = CostAboveLimit
	case f.count+cost > limit:
		s.reason, s.retryAfter = RateLimited, f.end-now
	}
	return s
}

// charge counts cost units; the caller has checked that there is room.
func (f *fixedWindow) charge(now int64, w *Window, limit, cost int) (s standing, stamp int64) {
	*f, now = f.opened(now, w)
	f.count += cost
	return standing{remaining: max(0, limit-f.count), resetAfter: f.end - now}, f.end
}

// countRejected counts cost units beyond the limit.
func (f *fixedWindow) countRejected(now int64, w *Window, cost int) {
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
