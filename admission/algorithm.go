package admission

import "time"

// Algorithm is how a window counts. Closed set; the same word stands in rules files, JSON and the scripts.
type Algorithm string

// The algorithms.
const (
	// SlidingLog keeps the time of every unit. Exact: at most limit units lie in any span of a window's length.
	SlidingLog Algorithm = "sliding_log"
	// SlidingCounter keeps the units of two adjoining spans of a window's length and takes those of the earlier one as spread
	// evenly. Two numbers whatever the limit. See https://blog.cloudflare.com/counting-things-a-lot-of-different-things/.
	SlidingCounter Algorithm = "sliding_counter"
	// FixedWindow keeps the units of one window, opened by the first of them or by the calendar. Twice the limit may pass
	// around the end of a window.
	FixedWindow Algorithm = "fixed_window"
	// GCRA lets units pass at an even rate, a burst of them ahead of it (ITU-T I.371, the virtual scheduling algorithm).
	GCRA Algorithm = "gcra"
	// TwoStage lets the units of a base through, and limits by a sliding log only what comes after them.
	TwoStage Algorithm = "base"
	// Direct counts nothing: the rule's action is the decision.
	Direct Algorithm = "direct"
)

// maxLogged is the highest limit for which windows are sliding logs unless the rule says otherwise.
const maxLogged = 128

// sliding returns the sliding algorithm for a limit.
func sliding(limit int) Algorithm {
	if limit <= maxLogged {
		return SlidingLog
	}
	return SlidingCounter
}

// A Window is a length of time or, where Calendar is not nil, a unit of the calendar.
type Window struct {
	Length   time.Duration // whole milliseconds; 0 with Calendar
	Calendar *Calendar
}

// A Calendar divides time into minutes, hours, days or months as the clocks and calendars of a zone show them: a day has
// 23 to 25 hours. It is safe for concurrent use.
type Calendar struct {
	Unit string         // minute, hour, day or month
	Zone *time.Location // not nil
}

// Span returns the span that holds t, from start on and without end.
func (c *Calendar) Span(t time.Time) (start, end time.Time) {
	t = t.In(c.Zone)
	year, month, day := t.Date()
	switch c.Unit {
	case "month":
		return c.midnight(year, month, 1), c.midnight(year, month+1, 1)
	case "day":
		return c.midnight(year, month, day), c.midnight(year, month, day+1)
	}
	// The clock may be set back at any hour, which then comes twice: hence by what has passed since it struck.
	_, minute, second := t.Clock()
	length, passed := time.Minute, time.Duration(second)*time.Second+time.Duration(t.Nanosecond())
	if c.Unit == "hour" {
		length, passed = time.Hour, passed+time.Duration(minute)*time.Minute
	}
	start = t.Add(-passed)
	return start, start.Add(length)
}

// midnight returns when a day begins. Where the clock is put forward at midnight it has no midnight, and where it is put back to
// midnight it has two, of which time.Date promises neither.
func (c *Calendar) midnight(year int, month time.Month, day int) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, c.Zone)
	from, to := t.ZoneBounds()
	y, m, d := t.Date()
	if time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(time.Date(year, month, day, 0, 0, 0, 0, time.UTC)) {
		return to // the zone's next change, from the evening before into this day
	}
	if from.IsZero() {
		return t
	}
	_, before := from.Add(-1).Zone()
	_, after := t.Zone()
	if first := t.Add(time.Duration(after-before) * time.Second); first.Before(from) && first.Day() == t.Day() {
		return first
	}
	return t
}

// length returns how long w is, of a calendar the usual length of its unit.
func (w Window) length() time.Duration {
	if w.Calendar == nil {
		return w.Length
	}
	return map[string]time.Duration{
		"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "month": 30 * 24 * time.Hour,
	}[w.Calendar.Unit]
}
