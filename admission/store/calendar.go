package store

import "time"

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

// String formats w as 1m0s or "day Asia/Shanghai".
func (w Window) String() string {
	if w.Calendar == nil {
		return w.Length.String()
	}
	return w.Calendar.Unit + " " + w.Calendar.Zone.String()
}
