package livepage

import (
	"testing"
	"time"
)

// What is shown is at most an eighth above what was measured, and never below.
func TestLatencyBuckets(t *testing.T) {
	last := -1
	for us := int64(0); us < 120_000_000; us += 1 + us/50 {
		bucket := bucketOf(time.Duration(us) * time.Microsecond)
		if bucket < last || bucket >= len(durations{}) {
			t.Fatalf("%d µs are in bucket %d, after %d", us, bucket, last)
		}
		if end := below(bucket); end <= us || end > us+us/8+1 {
			t.Fatalf("%d µs are shown as %d", us, end)
		}
		last = bucket
	}
}

func TestLatencyOfTheWindow(t *testing.T) {
	var l latencies
	l.add(time.Hour) // of a window before
	before := l.totals()
	if got := l.totals().since(before); got != nil {
		t.Errorf("nothing took %+v", got)
	}
	shows := func(p50, p99 int64) {
		t.Helper()
		if got := l.totals().since(before); got.P50US != p50 || got.P99US != p99 {
			t.Errorf("%+v, want %d and %d", got, p50, p99)
		}
	}
	l.add(80 * time.Millisecond)
	shows(81_920, 81_920)
	l.add(1500 * time.Microsecond)
	shows(1536, 81_920)
	for range 97 {
		l.add(1500 * time.Microsecond)
	}
	l.add(80 * time.Millisecond)
	shows(1536, 81_920)
	before = l.totals()
	l.add(-time.Second) // no clock does so, and it is not lost
	l.add(24 * time.Hour)
	shows(1, 1<<29)
}
