package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/internal/testenv"
)

// keysOf holds every key of a namespace to its type and to having an end, and returns them.
func keysOf(t *testing.T, rdb redis.UniversalClient, ns, after string) []string {
	t.Helper()
	var keys []string
	for scan := rdb.Scan(t.Context(), 0, ns+":*", 100_000).Iterator(); scan.Next(t.Context()); {
		key := scan.Val()
		keys = append(keys, key)
		if ttl, err := rdb.PTTL(t.Context(), key).Result(); err != nil || ttl <= 0 || ttl > 32*24*time.Hour {
			t.Errorf("%s: %s ends after %v, %v", after, key, ttl, err)
		}
		want := "string"
		if strings.Contains(key, ":q:") {
			want = "hash"
		}
		if kind := rdb.Type(t.Context(), key).Val(); kind != want {
			t.Errorf("%s: %s is a %s, want a %s", after, key, kind, want)
		}
	}
	return keys
}

// everyTally is one of each way to count, with all that can be kept beside it.
func everyTally(ns string) map[string]admission.Tally {
	day := admission.Window{Calendar: &admission.Calendar{Unit: "day", Zone: time.UTC}}
	minute := admission.Window{Length: time.Minute}
	tallies := map[string]admission.Tally{
		"log":      {Algorithm: admission.SlidingLog, Limit: 5, Window: minute},
		"long log": {Algorithm: admission.SlidingLog, Limit: 5000, Window: minute},
		"counter":  {Algorithm: admission.SlidingCounter, Limit: 5, Window: minute},
		"window":   {Algorithm: admission.FixedWindow, Limit: 5, Window: minute},
		"day":      {Algorithm: admission.FixedWindow, Limit: 5, Window: day},
		"gcra":     {Algorithm: admission.GCRA, Limit: 5, Burst: 5, Window: minute},
		"base":     {Algorithm: admission.TwoStage, Limit: 5, Window: minute, Base: &admission.Base{Limit: 2, Window: minute}},
		"base day": {Algorithm: admission.TwoStage, Limit: 5, Window: minute, Base: &admission.Base{Limit: 2, Window: day}},
	}
	for name, tally := range tallies {
		tally.Subject = strings.ReplaceAll(name, " ", "-")
		tally.Key = fmt.Sprintf("%s:w:{%s}:abcdefgh", ns, tally.Subject)
		tally.Records = fmt.Sprintf("%s:q:{%s}", ns, tally.Subject)
		if tally.Base != nil {
			tally.Base.Key = tally.Key + ":b"
		}
		tally.Strikes = &admission.Strikes{Key: tally.Key + ":s", Limit: 3, Window: time.Minute}
		tally.Cost, tally.CountRejected = 1, true
		tallies[name] = tally
	}
	return tallies
}

// A key without an end is a subject locked out for good, and memory that never comes back.
func TestEveryKeyEndsWhateverIsDone(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.Redis(t))
	store, ns := admission.NewRedisStore(rdb), namespace()
	for name, tally := range everyTally(ns) {
		own := ns + ":?:{" + tally.Subject + "}"
		do := func(what string, call admission.Call) admission.Count {
			t.Helper()
			counts, err := store.Decide(t.Context(), call)
			if err != nil || len(counts) != 1 {
				t.Fatalf("%s: %s: %+v, %v", name, what, counts, err)
			}
			keysOf(t, rdb, own, name+": "+what)
			return counts[0]
		}
		one := func(mode admission.Mode, request string, tally admission.Tally) admission.Call {
			return admission.Call{Mode: mode, Request: request, Channel: ns, Tallies: []admission.Tally{tally}}
		}
		do("check", one(admission.Check, "", tally))
		if keys := keysOf(t, rdb, own, name); len(keys) != 0 {
			t.Errorf("%s: a check left %q", name, keys)
		}
		charged := tally
		charged.Stamp = do("charge", one(admission.Charge, "", tally)).Stamp
		do("charge by id", one(admission.Charge, "r1", tally))
		do("resend", one(admission.Charge, "r1", tally))
		do("refund", one(admission.Refund, "", charged))
		do("refund by id", one(admission.Refund, "r1", tally))
		large := tally
		large.Cost = tally.Limit - 1
		do("a large charge", one(admission.Charge, "", large))
		for i := range 4 { // also strikes, and struck once
			if c := do("refusal", one(admission.Charge, fmt.Sprint("refused", i), large)); c.Reason == "" {
				t.Errorf("%s: a refusal: %+v", name, c)
			}
		}
		rejected := tally
		rejected.Refusals = 2
		do("reject", one(admission.Reject, "", rejected))
		do("reset", one(admission.Reset, "", tally))
		for _, key := range keysOf(t, rdb, own, name) {
			if !strings.Contains(key, ":q:") {
				t.Errorf("%s: a reset left %s", name, key)
			}
		}
	}
}

// Invented ids fill only two short lists of answers.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.Redis(t))
	store, ns := admission.NewRedisStore(rdb), namespace()
	tally := everyTally(ns)["log"]
	for i := range 1000 {
		call := admission.Call{Mode: admission.Charge, Request: fmt.Sprintf("%022d", i), Tallies: []admission.Tally{tally}}
		if _, err := store.Decide(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for _, key := range []string{tally.Records, tally.Records + ":old"} {
		n := int(rdb.HLen(t.Context(), key).Val())
		if n > 128 {
			t.Errorf("%s holds %d answers", key, n)
		}
		kept += n
		if kind := rdb.ObjectEncoding(t.Context(), key).Val(); kind == "hashtable" {
			t.Errorf("%s takes the room of a %s", key, kind)
		}
	}
	if kept < 128 {
		t.Errorf("%d answers are kept, want at least the last 128", kept)
	}
}

// The bytes of a subject decide how many fit into a Redis. Keys have the length of real ones.
func TestASubjectIsSmall(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.Redis(t))
	store := admission.NewRedisStore(rdb)
	minute := admission.Window{Length: time.Minute}
	for i, c := range []struct {
		algorithm admission.Algorithm
		limit     int
		bytes     int64
	}{
		{admission.SlidingLog, 10, 200},
		{admission.SlidingLog, 100, 1100},
		{admission.SlidingLog, 1000, 21_000},
		{admission.SlidingCounter, 10, 120},
		{admission.SlidingCounter, 1000, 120},
		{admission.FixedWindow, 10, 120},
		{admission.GCRA, 10, 120},
	} {
		subject := fmt.Sprintf("%020d%02d", time.Now().UnixNano(), i)
		tally := admission.Tally{
			Key: "tidegate:w:{" + subject + "}:abcdefgh", Subject: subject,
			Algorithm: c.algorithm, Limit: c.limit, Burst: c.limit, Window: minute, Cost: 1,
		}
		for range c.limit {
			if _, err := store.Decide(t.Context(), admission.Call{Mode: admission.Charge, Tallies: []admission.Tally{tally}}); err != nil {
				t.Fatal(err)
			}
		}
		if n := rdb.MemoryUsage(t.Context(), tally.Key).Val(); n == 0 || n > c.bytes {
			t.Errorf("%s of %d units takes %d bytes, want at most %d", c.algorithm, c.limit, n, c.bytes)
		} else {
			t.Logf("%s of %d units takes %d bytes", c.algorithm, c.limit, n)
		}
	}
}

// The rules of a zone are this process', the time is Redis'. A store that is wrong about Redis' clock learns it with the first call, and
// counts where all others do.
func TestCalendarsGoByRedisTime(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"redis": testenv.Redis(t), "cluster": cluster(t)} {
		t.Run(name, func(t *testing.T) {
			rdb, ns := dial(t, url), namespace()
			zone := time.FixedZone("", 5*3600+1800)
			for unit, wrong := range map[string]time.Duration{"month": -40 * 24 * time.Hour, "day": 30 * time.Hour, "hour": -3 * time.Hour} {
				calendar := &admission.Calendar{Unit: unit, Zone: zone}
				call := admission.Call{Mode: admission.Charge, Tallies: []admission.Tally{{
					Key: fmt.Sprintf("%s:w:{%s}:abcdefgh", ns, unit), Subject: unit, Algorithm: admission.FixedWindow,
					Limit: 10, Window: admission.Window{Calendar: calendar}, Cost: 1,
				}}}
				remaining, last := 10, time.Time{}
				for _, skew := range []time.Duration{0, wrong, -wrong} {
					store := admission.NewRedisStore(rdb)
					store.SetSkew(skew)
					counts, err := store.Decide(t.Context(), call)
					if err != nil {
						t.Fatalf("%s: wrong by %v: %v", unit, skew, err)
					}
					_, end := calendar.Span(counts[0].At)
					if !end.Equal(last) {
						remaining, last = 10, end // the first, or a span ended just now
					}
					remaining--
					if c := counts[0]; c.Remaining != remaining || !c.At.Add(c.ResetAfter).Equal(end) {
						t.Errorf("%s: wrong by %v: %+v, want %d left until %v", unit, skew, c, remaining, end)
					}
					if s := store.Skew().Abs(); s > time.Hour/2 {
						t.Errorf("%s: wrong by %v: still takes Redis for %v ahead", unit, skew, s)
					}
				}
			}
		})
	}
}
