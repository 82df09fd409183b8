package admission_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/admission"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// The last µs of a span is full and the next one is free, in the zone's own time.
func TestCalendarWindows(t *testing.T) {
	eachStore(t, func(t *testing.T, open opener) {
		for _, c := range []struct {
			zone, unit string
			at         string // in the zone, with its offset
			length     time.Duration
			end        string
		}{
			{"UTC", "minute", "2030-01-02T03:04:05Z", time.Minute, "2030-01-02T03:05:00Z"},
			{"UTC", "hour", "2030-01-02T03:04:05Z", time.Hour, "2030-01-02T04:00:00Z"},
			{"Asia/Kolkata", "hour", "2030-01-02T03:34:05+05:30", time.Hour, "2030-01-02T04:00:00+05:30"},
			{"Asia/Shanghai", "day", "2030-01-02T07:59:59+08:00", 24 * time.Hour, "2030-01-03T00:00:00+08:00"}, // still the 1st in UTC
			{"Asia/Shanghai", "month", "2030-03-01T00:00:00+08:00", 31 * 24 * time.Hour, "2030-04-01T00:00:00+08:00"},
			{"UTC", "month", "2032-02-29T12:00:00Z", 29 * 24 * time.Hour, "2032-03-01T00:00:00Z"},
			{"UTC", "month", "2030-12-31T23:59:59Z", 31 * 24 * time.Hour, "2031-01-01T00:00:00Z"},
			{"America/New_York", "day", "2030-03-10T12:00:00-04:00", 23 * time.Hour, "2030-03-11T00:00:00-04:00"},
			{"America/New_York", "day", "2030-11-03T12:00:00-05:00", 25 * time.Hour, "2030-11-04T00:00:00-05:00"},
			{"America/New_York", "month", "2030-03-10T12:00:00-04:00", 31*24*time.Hour - time.Hour, "2030-04-01T00:00:00-04:00"},
			{"America/New_York", "hour", "2030-11-03T01:30:00-04:00", time.Hour, "2030-11-03T01:00:00-05:00"}, // comes twice
			{"America/New_York", "hour", "2030-11-03T01:30:00-05:00", time.Hour, "2030-11-03T02:00:00-05:00"},
			// Here the clock was put forward at midnight, so that the day began at one, and back at midnight, so that it ended twice.
			{"America/Sao_Paulo", "day", "2018-11-04T12:00:00-02:00", 23 * time.Hour, "2018-11-05T00:00:00-02:00"},
			{"America/Sao_Paulo", "day", "2018-11-03T23:30:00-03:00", 24 * time.Hour, "2018-11-04T01:00:00-02:00"},
			{"America/Sao_Paulo", "day", "2018-02-17T23:30:00-02:00", 25 * time.Hour, "2018-02-18T00:00:00-03:00"},
			{"America/Sao_Paulo", "day", "2018-02-17T23:30:00-03:00", 25 * time.Hour, "2018-02-18T00:00:00-03:00"},
			{"Pacific/Apia", "day", "2011-12-29T12:00:00-10:00", 24 * time.Hour, "2011-12-31T00:00:00+14:00"},   // the 30th never came
			{"America/Havana", "day", "2030-11-03T00:30:00-04:00", 25 * time.Hour, "2030-11-04T00:00:00-05:00"}, // midnight came twice
			{"America/Havana", "day", "2030-11-03T00:30:00-05:00", 25 * time.Hour, "2030-11-04T00:00:00-05:00"},
			{"Australia/Lord_Howe", "hour", "2030-04-07T01:45:00+11:00", time.Hour, "2030-04-07T01:30:00+10:30"}, // half an hour back
		} {
			calendar := &admission.Calendar{Unit: c.unit, Zone: zone(t, c.zone)}
			at, end := instant(t, c.at), instant(t, c.end)
			start, got := calendar.Span(at)
			if !got.Equal(end) || got.Sub(start) != c.length {
				t.Errorf("%s of %s in %s: from %v to %v, want %v up to %s", c.unit, c.at, c.zone, start, got, c.length, c.end)
				continue
			}
			d := newDesk(t, open)
			tally := d.tally(admission.FixedWindow, 2, 0)
			tally.Window.Calendar = calendar
			d.clk.At(at.Sub(epoch))
			if count := d.one(doCharge, tally); count.Reason != "" || count.ResetAfter != end.Sub(at) {
				t.Errorf("%s in %s: %+v, want all free after %v", c.unit, c.zone, count, end.Sub(at))
			}
			d.clk.At(end.Add(-µs).Sub(epoch))
			d.one(doCharge, tally)
			if count := d.one(doCharge, tally); count.Reason != limited || count.RetryAfter != µs {
				t.Errorf("%s in %s, the last µs: %+v", c.unit, c.zone, count)
			}
			d.clk.At(end.Sub(epoch))
			count := d.one(doCharge, tally)
			if _, next := calendar.Span(end); count.Reason != "" || count.Remaining != 1 || count.ResetAfter != next.Sub(end) {
				t.Errorf("%s in %s, the next: %+v", c.unit, c.zone, count)
			}
			d.clk.At(at.Sub(epoch)) // back in the span before: what counts now goes on counting
			if count := d.one(doCharge, tally); count.Remaining != 0 {
				t.Errorf("%s in %s, stepped back: %+v", c.unit, c.zone, count)
			}
		}
	})
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

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
		c := &admission.Calendar{Unit: rapid.SampledFrom([]string{"minute", "hour", "day", "month"}).Draw(t, "unit"), Zone: loc}
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
