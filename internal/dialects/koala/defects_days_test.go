package koala_test

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/internal/dialects/koala"
)

const threeADay = "rule : [count] [uid=+] [time=86400; count=3] [result=2; return=201]"

// K4: on a host with UTC the original limits nothing for eight hours of each day, and on any host in the last second of the day.
func TestK4TheOriginalLosesDays(t *testing.T) {
	rdb, _ := ownRedis(t)
	o := newOriginal(t, rdb, threeADay)
	midnight := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	for hour := range 24 {
		o.now = func() time.Time { return midnight.Add(time.Duration(hour)*time.Hour + 30*time.Minute) }
		params := koala.Params{"uid": o.now().String()}
		in := admitted(t.Context(), o, params, 5)
		if want := map[bool]int{false: 3, true: 5}[hour >= 16]; in != want {
			t.Errorf("%d:30 UTC: the original admits %d of 5, is known to admit %d", hour, in, want)
		}
	}
	shanghai := zone(t, "Asia/Shanghai")
	o.now = func() time.Time { return time.Date(2026, 3, 4, 23, 59, 59, 0, shanghai) }
	if in := admitted(t.Context(), o, koala.Params{"uid": "last second"}, 5); in != 5 {
		t.Errorf("in the last second the original admits %d of 5, is known to admit all", in)
	}
	// The day of base ends at 7:59:59 of the next one.
	o = newOriginal(t, rdb, "rule : [base] [uid=+] [base=1; time=3600; count=1] [result=2; return=203]")
	at := time.Date(2026, 3, 4, 23, 0, 0, 0, shanghai)
	o.now = func() time.Time { return at }
	admitted(t.Context(), o, uid, 2)
	at = at.Add(2 * time.Hour)
	o.pass(t.Context(), t, 2*time.Hour)
	if n, _ := rdb.Get(t.Context(), "r203|7").Int(); n != 2 {
		t.Errorf("at one in the morning base counts %d of today, is known to count those of yesterday, 2", n)
	}
}

// K4: a day is one of the configured zone, whatever the zone of the host is, to its last instant.
func TestK4DaysAreThoseOfTheZone(t *testing.T) {
	base := strings.NewReplacer("[count]", "[base]", "time=86400; count=3", "base=3; time=2592000; count=1").Replace(threeADay)
	for _, tt := range []struct {
		zone   string // empty: the default
		of     string
		from   time.Time
		rules  string
		beyond int // that are let in after the first three, once
	}{
		{"", "Asia/Shanghai", time.Date(2000, 1, 3, 0, 0, 0, 0, time.UTC), threeADay, 0},
		{"Asia/Shanghai", "Asia/Shanghai", time.Date(2000, 2, 28, 12, 30, 0, 0, time.UTC), threeADay, 0},
		{"UTC", "UTC", time.Date(2000, 2, 28, 0, 0, 0, 0, time.UTC), threeADay, 0},
		{"America/New_York", "America/New_York", time.Date(2000, 4, 1, 0, 0, 0, 0, time.UTC), threeADay, 0},   // a day of 23 hours
		{"America/New_York", "America/New_York", time.Date(2000, 10, 28, 0, 0, 0, 0, time.UTC), threeADay, 0}, // and one of 25
		{"Asia/Kathmandu", "Asia/Kathmandu", time.Date(2000, 1, 3, 0, 0, 0, 0, time.UTC), threeADay, 0},       // 5:45
		{"", "Asia/Shanghai", time.Date(2000, 1, 3, 0, 0, 0, 0, time.UTC), base, 1},                           // of base as well
		{"America/New_York", "America/New_York", time.Date(2000, 4, 1, 0, 0, 0, 0, time.UTC), base, 1},
	} {
		t.Run(tt.of+tt.from.Format(" Jan 2 ")+tt.rules[8:12], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				days := zone(t, tt.of)
				time.Sleep(time.Until(tt.from))
				s := newOurs(t, inMemory(), tt.rules, func(o *koala.Options) {
					if tt.zone != "" {
						o.Zone = days
					}
				})
				hits, beyond := map[string]int{}, tt.beyond // of each day
				ask := func() {
					t.Helper()
					date := time.Now().In(days).Format(time.DateOnly)
					in := s.writeThrough(t.Context(), uid) == 0
					hits[date]++
					want := hits[date] <= 3
					if !want && beyond > 0 {
						want = true
						beyond--
					}
					if in != want {
						t.Errorf("%v: admitted %v, hit %d of the day", time.Now().In(days), in, hits[date])
					}
				}
				for time.Since(tt.from) < 72*time.Hour {
					y, m, d := time.Now().In(days).Date()
					end := time.Date(y, m, d+1, 0, 0, 0, 0, days)
					if time.Until(end) <= 30*time.Minute { // the last second, the last millisecond, and the first instant of the next day
						time.Sleep(time.Until(end) - time.Second)
						ask()
						time.Sleep(999 * time.Millisecond)
						ask()
						time.Sleep(time.Until(end))
						ask()
					}
					time.Sleep(30 * time.Minute)
					ask()
				}
				if len(hits) < 3 {
					t.Errorf("only %v", hits)
				}
			})
		})
	}
}

// K4: on hosts of other zones, by TZ.
func TestK4OnHostsOfOtherZones(t *testing.T) {
	for _, tz := range []string{"UTC", "America/Los_Angeles", "Asia/Shanghai", "Pacific/Kiritimati"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^(TestK4DaysAreThoseOfTheZone|TestK4ADayInRedis)$", "-test.v")
		cmd.Env = append(os.Environ(), "TZ="+tz)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "--- PASS: TestK4") != 10 {
			t.Errorf("TZ=%s: %v\n%s", tz, err, out)
		}
	}
}

// K4: Redis keeps a counter of the day until the end of the day in the zone.
func TestK4ADayInRedis(t *testing.T) {
	rdb, _ := ownRedis(t)
	for _, name := range []string{"Asia/Shanghai", "UTC", "America/New_York", "Pacific/Kiritimati"} {
		days := zone(t, name)
		for midnight := true; midnight; { // if it comes in between, all is done once more, of the new day
			end := endOfDay(days)
			s := newOurs(t, redisstore.New(rdb), threeADay, func(o *koala.Options) { o.Zone = days })
			in := admitted(t.Context(), s, uid, 5)
			keys := rdb.Keys(t.Context(), s.namespace+"*").Val()
			var off time.Duration // from the end of the day to the end of a key, at most
			for _, key := range keys {
				off = max(off, time.Until(end.Add(-rdb.PTTL(t.Context(), key).Val())).Abs())
			}
			if midnight = !endOfDay(days).Equal(end); midnight {
				continue
			}
			if in != 3 || len(keys) == 0 || off > time.Minute {
				t.Errorf("%s: %d are admitted, want 3; %q end %v off the end of the day", name, in, keys, off)
			}
		}
	}
}

func endOfDay(in *time.Location) time.Time {
	y, m, d := time.Now().In(in).Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, in)
}

// A day that begins where the clocks skip midnight does not begin an hour early, again and again.
func TestTodayWhereThereIsNoMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := newJournal()
		s := newOurs(t, inMemory(), "rule : [count] [uid=+] [time=600; count=2] [result=2; return=201]", func(o *koala.Options) {
			o.Zone, o.Logger = zone(t, "America/Havana"), slog.New(slog.NewTextHandler(logged, nil))
		})
		time.Sleep(time.Until(time.Date(2000, 4, 2, 4, 30, 0, 0, time.UTC))) // half an hour before
		for range 3 {
			s.writeThrough(t.Context(), uid)
		}
		for _, want := range []string{"2000-04-01[{201 2 1}]", "2000-04-02[]"} {
			date, tallies := s.Today()
			if got := fmt.Sprint(date, tallies); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			time.Sleep(30 * time.Minute)
		}
		if got := logged.String(); strings.Count(got, "a rule's day") != 1 {
			t.Errorf("logged %s", got)
		}
	})
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
