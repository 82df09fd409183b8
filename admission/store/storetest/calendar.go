package storetest

import (
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
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
func testCalendarWindows(t *testing.T, open Opener) {
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
		calendar := &store.Calendar{Unit: c.unit, Zone: zone(t, c.zone)}
		at, end := instant(t, c.at), instant(t, c.end)
		start, got := calendar.Span(at)
		if !got.Equal(end) || got.Sub(start) != c.length {
			t.Errorf("%s of %s in %s: from %v to %v, want %v up to %s", c.unit, c.at, c.zone, start, got, c.length, c.end)
			continue
		}
		d := newDesk(t, open)
		tally := d.Tally(store.FixedWindow, 2, 0)
		tally.Window.Calendar = calendar
		d.Clock.At(at.Sub(Epoch))
		if count := d.One(doCharge, tally); count.Reason != "" || count.ResetAfter != end.Sub(at) {
			t.Errorf("%s in %s: %+v, want all free after %v", c.unit, c.zone, count, end.Sub(at))
		}
		d.Clock.At(end.Add(-µs).Sub(Epoch))
		d.One(doCharge, tally)
		if count := d.One(doCharge, tally); count.Reason != limited || count.RetryAfter != µs {
			t.Errorf("%s in %s, the last µs: %+v", c.unit, c.zone, count)
		}
		d.Clock.At(end.Sub(Epoch))
		count := d.One(doCharge, tally)
		if _, next := calendar.Span(end); count.Reason != "" || count.Remaining != 1 || count.ResetAfter != next.Sub(end) {
			t.Errorf("%s in %s, the next: %+v", c.unit, c.zone, count)
		}
		d.Clock.At(at.Sub(Epoch)) // back in the span before: what counts now goes on counting
		if count := d.One(doCharge, tally); count.Remaining != 0 {
			t.Errorf("%s in %s, stepped back: %+v", c.unit, c.zone, count)
		}
	}
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
