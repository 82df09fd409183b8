package response

import (
	"math"
	"time"
)

// Instant converts a time for responses: UTC, in milliseconds.
func Instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// InstantOrNull is Instant, and nil for the zero time.
func InstantOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = Instant(t)
	return &t
}

// CeilSeconds rounds up, so that clients do not retry too early.
func CeilSeconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// CeilMS is CeilSeconds in milliseconds.
func CeilMS(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
