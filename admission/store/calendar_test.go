package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/admission/store"
)

// Spans follow each other without a gap, hold their times, and begin where the calendar turns over.
func TestSpansDivideTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{
			"UTC", "Asia/Shanghai", "Asia/Kolkata", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Africa/Casablanca",
			"Asia/Beirut", "Asia/Amman", "America/Asuncion", "Atlantic/Azores", "Pacific/Chatham", "Africa/Cairo", "America/Havana",
			"Pacific/Apia", "America/Santiago", "Asia/Tehran",
		}).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		c := &store.Calendar{Unit: rapid.SampledFrom([]string{"minute", "hour", "day", "month"}).Draw(t, "unit"), Zone: loc}
		at := time.Unix(rapid.Int64Range(1_000_000_000, 2_200_000_000).Draw(t, "at"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		start, end := c.Span(at)
		if at.Before(start) || !at.Before(end) {
			t.Fatalf("%s of %v in %s: %v to %v does not hold it", c.Unit, at.In(loc), name, start, end)
		}
		for _, inside := range []time.Time{start, end.Add(-1)} {
			if s, e := c.Span(inside); !s.Equal(start) || !e.Equal(end) {
				t.Fatalf("%s in %s: %v lies in %v to %v and in %v to %v", c.Unit, name, inside, start, end, s, e)
			}
		}
		if s, _ := c.Span(end); !s.Equal(end) {
			t.Fatalf("%s in %s: after %v to %v comes one from %v", c.Unit, name, start, end, s)
		}
		if _, e := c.Span(start.Add(-1)); !e.Equal(start) {
			t.Fatalf("%s in %s: before %v to %v comes one up to %v", c.Unit, name, start, end, e)
		}
		if c.Unit == "day" || c.Unit == "month" {
			date := func(t time.Time) [2]int {
				y, m, d := t.In(loc).Date()
				if c.Unit == "month" {
					d = 0
				}
				return [2]int{y*12 + int(m), d}
			}
			if diff := cmp.Diff([]bool{true, true, false, false}, []bool{
				date(start) == date(at), date(end.Add(-1)) == date(at), date(end) == date(at), date(start.Add(-1)) == date(at),
			}); diff != "" {
				t.Fatalf("%s in %s: %v to %v is not one (-want +got):\n%s", c.Unit, name, start, end, diff)
			}
		}
	})
}
