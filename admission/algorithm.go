package admission

import "time"

// Algorithm is how a window counts. It is a closed set; the same word is used in rules files, JSON and the scripts.
type Algorithm string

// The algorithms.
const (
	// SlidingLog keeps the time of every unit. Exact: at most limit units lie in any span of a window's length.
	SlidingLog Algorithm = "sliding_log"
	// SlidingCounter keeps the units of two adjacent spans of a window's length and assumes those of the earlier one to be evenly
	// distributed. It keeps two numbers, whatever the limit. See https://blog.cloudflare.com/counting-things-a-lot-of-different-things/.
	SlidingCounter Algorithm = "sliding_counter"
	// FixedWindow counts the units of one window, which its first unit or the calendar opens. Up to twice the limit can pass around the
	// end of a window.
	FixedWindow Algorithm = "fixed_window"
	// GCRA admits units at an even rate and up to a burst of them early (ITU-T I.371, the virtual scheduling algorithm).
	GCRA Algorithm = "gcra"
	// TwoStage admits the units of a base for free, and limits only further units, by a sliding log.
	TwoStage Algorithm = "base"
	// Direct counts nothing: the rule's action is the decision.
	Direct Algorithm = "direct"
)

// maxLogged is the highest limit for which a sliding log is the default algorithm.
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

// A Calendar divides local time in a zone into minutes, hours, days or months; a day has 23 to 25 hours. It is safe for concurrent use.
type Calendar struct {
	Unit string         // minute, hour, day or month
	Zone *time.Location // not nil
}

// Span returns the span that contains t: start is inclusive, end is exclusive.
func (c *Calendar) Span(t time.Time) (start, end time.Time) {
	t = t.In(c.Zone)
	year, month, day := t.Date()
	switch c.Unit {
	case "month":
		return c.midnight(year, month, 1), c.midnight(year, month+1, 1)
	case "day":
		return c.midnight(year, month, day), c.midnight(year, month, day+1)
	}
	// A local hour can occur twice when the clock is set back, so compute the start from the time passed since it, not from local time.
	_, minute, second := t.Clock()
	length, passed := time.Minute, time.Duration(second)*time.Second+time.Duration(t.Nanosecond())
	if c.Unit == "hour" {
		length, passed = time.Hour, passed+time.Duration(minute)*time.Minute
	}
	start = t.Add(-passed)
	return start, start.Add(length)
}

// midnight returns when a day begins. If the clock is set forward at midnight, there is no midnight; if it is set back to midnight, there
// are two. time.Date does not specify which time it returns in these cases.
func (c *Calendar) midnight(year int, month time.Month, day int) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, c.Zone)
	from, to := t.ZoneBounds()
	y, m, d := t.Date()
	if time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(time.Date(year, month, day, 0, 0, 0, 0, time.UTC)) {
		return to // the first zone transition after the previous evening, within this day
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

// length returns the duration of w; for a calendar window, the usual duration of its unit.
func (w Window) length() time.Duration {
	if w.Calendar == nil {
		return w.Length
	}
	return map[string]time.Duration{
		"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "month": 30 * 24 * time.Hour,
	}[w.Calendar.Unit]
}
