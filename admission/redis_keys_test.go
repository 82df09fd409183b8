package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/redisstore"
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
func everyTally(ns string) map[string]store.Tally {
	day := store.Window{Calendar: &store.Calendar{Unit: "day", Zone: time.UTC}}
	minute := store.Window{Length: time.Minute}
	tallies := map[string]store.Tally{
		"log":      {Algorithm: store.SlidingLog, Limit: 5, Window: minute},
		"long log": {Algorithm: store.SlidingLog, Limit: 5000, Window: minute},
		"counter":  {Algorithm: store.SlidingCounter, Limit: 5, Window: minute},
		"window":   {Algorithm: store.FixedWindow, Limit: 5, Window: minute},
		"day":      {Algorithm: store.FixedWindow, Limit: 5, Window: day},
		"gcra":     {Algorithm: store.GCRA, Limit: 5, Burst: 5, Window: minute},
		"base":     {Algorithm: store.TwoStage, Limit: 5, Window: minute, Base: &store.Base{Limit: 2, Window: minute}},
		"base day": {Algorithm: store.TwoStage, Limit: 5, Window: minute, Base: &store.Base{Limit: 2, Window: day}},
	}
	for name, tally := range tallies {
		tally.Subject = strings.ReplaceAll(name, " ", "-")
		tally.Key = fmt.Sprintf("%s:w:{%s}:abcdefgh", ns, tally.Subject)
		tally.Records = fmt.Sprintf("%s:q:{%s}", ns, tally.Subject)
		if tally.Base != nil {
			tally.Base.Key = tally.Key + ":b"
		}
		tally.Strikes = &store.Strikes{Key: tally.Key + ":s", Limit: 3, Window: time.Minute}
		tally.Cost, tally.CountRejected = 1, true
		tallies[name] = tally
	}
	return tallies
}

// A key without an end is a subject locked out for good, and memory that never comes back.
func TestEveryKeyEndsWhateverIsDone(t *testing.T) {
	t.Parallel()
	rdb := dial(t, testenv.Redis(t))
	st, ns := redisstore.New(rdb), namespace()
	for name, tally := range everyTally(ns) {
		own := ns + ":?:{" + tally.Subject + "}"
		do := func(what string, call store.Call) store.Count {
			t.Helper()
			counts, err := st.Decide(t.Context(), call)
			if err != nil || len(counts) != 1 {
				t.Fatalf("%s: %s: %+v, %v", name, what, counts, err)
			}
			keysOf(t, rdb, own, name+": "+what)
			return counts[0]
		}
		one := func(mode store.Mode, request string, tally store.Tally) store.Call {
			return store.Call{Mode: mode, Request: request, Channel: ns, Tallies: []store.Tally{tally}}
		}
		do("check", one(store.Check, "", tally))
		if keys := keysOf(t, rdb, own, name); len(keys) != 0 {
			t.Errorf("%s: a check left %q", name, keys)
		}
		charged := tally
		charged.Stamp = do("charge", one(store.Charge, "", tally)).Stamp
		do("charge by id", one(store.Charge, "r1", tally))
		do("resend", one(store.Charge, "r1", tally))
		do("refund", one(store.Refund, "", charged))
		do("refund by id", one(store.Refund, "r1", tally))
		large := tally
		large.Cost = tally.Limit - 1
		do("a large charge", one(store.Charge, "", large))
		for i := range 4 { // also strikes, and struck once
			if c := do("refusal", one(store.Charge, fmt.Sprint("refused", i), large)); c.Reason == "" {
				t.Errorf("%s: a refusal: %+v", name, c)
			}
		}
		rejected := tally
		rejected.Refusals = 2
		do("reject", one(store.Reject, "", rejected))
		do("reset", one(store.Reset, "", tally))
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
	st, ns := redisstore.New(rdb), namespace()
	tally := everyTally(ns)["log"]
	for i := range 1000 {
		call := store.Call{Mode: store.Charge, Request: fmt.Sprintf("%022d", i), Tallies: []store.Tally{tally}}
		if _, err := st.Decide(t.Context(), call); err != nil {
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
	st := redisstore.New(rdb)
	minute := store.Window{Length: time.Minute}
	for i, c := range []struct {
		algorithm store.Algorithm
		limit     int
		bytes     int64
	}{
		{store.SlidingLog, 10, 200},
		{store.SlidingLog, 100, 1100},
		{store.SlidingLog, 1000, 21_000},
		{store.SlidingCounter, 10, 120},
		{store.SlidingCounter, 1000, 120},
		{store.FixedWindow, 10, 120},
		{store.GCRA, 10, 120},
	} {
		subject := fmt.Sprintf("%020d%02d", time.Now().UnixNano(), i)
		tally := store.Tally{
			Key: "tidegate:w:{" + subject + "}:abcdefgh", Subject: subject,
			Algorithm: c.algorithm, Limit: c.limit, Burst: c.limit, Window: minute, Cost: 1,
		}
		for range c.limit {
			if _, err := st.Decide(t.Context(), store.Call{Mode: store.Charge, Tallies: []store.Tally{tally}}); err != nil {
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
