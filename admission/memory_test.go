package admission_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/storetest"
)

func user(i int) admission.Request { return admission.Request{User: fmt.Sprint(i)} }

// A full store counts everybody, those of a closed rule too, and holds no more than it may.
func TestAFullMemory(t *testing.T) {
	const most = 64
	clk := newClock()
	store := memorystore.New(memorystore.Options{MaxSubjects: most, Now: clk.Now})
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 1m, on_store_error: closed}")
	for i := range 10 * most {
		d, err := g.Charge(t.Context(), user(i))
		if err != nil || !d.Admitted || d.Degraded {
			t.Fatalf("user %d: %+v, %v", i, d, err)
		}
		if d := charge(t, g, user(i)); d.Admitted {
			t.Fatalf("user %d was not counted", i)
		}
	}
	if n := held(store); n != most {
		t.Errorf("%d counters, want %d", n, most)
	}
	clk.At(time.Minute) // all have ended
	evicted := evictions(store)
	for i := range most / 4 {
		if d := charge(t, g, user(-1-i)); !d.Admitted {
			t.Errorf("new user %d: %+v", i, d)
		}
	}
	if n := evictions(store); n != evicted {
		t.Errorf("%d were evicted where others had ended", n-evicted)
	}
}

func evictions(store *memorystore.Store) (n uint64) {
	for _, m := range store.Stats() {
		n += m.Evicted
	}
	return n
}

// A flood of invented subjects evicts its own counters, not those of a subject at its limit.
func TestACrowdEvictsItself(t *testing.T) {
	for _, algorithm := range []string{"sliding_log", "sliding_counter", "fixed_window", "gcra", "base"} {
		t.Run(algorithm, func(t *testing.T) {
			clk := newClock()
			store := memorystore.New(memorystore.Options{MaxSubjects: 4096, Now: clk.Now})
			rule := "- {name: r, subject: user, limit: 5, window: 1h, algorithm: " + algorithm
			if algorithm == "base" {
				rule += ", base: {limit: 1, window: day}"
			}
			g := gate(t, store, "ns", rule+"}")
			heavy := func(i int) admission.Request { return admission.Request{User: fmt.Sprint("heavy ", i)} }
			for i := range 300 {
				for charge(t, g, heavy(i)).Admitted {
				}
			}
			for i := range 40_000 {
				clk.Advance(ms) // so that the crowd's counters end last
				charge(t, g, user(i))
			}
			if n, evicted := held(store), evictions(store); n > 4096 || evicted < 30_000 {
				t.Errorf("%d counters, %d evicted", n, evicted)
			}
			for i := range 300 {
				if check(t, g, heavy(i)).Admitted {
					t.Errorf("heavy user %d was forgotten", i)
				}
			}
		})
	}
}

// Of counters that have used the same share of their limit the one that ends first makes room.
func TestTheFirstToEndMakesRoom(t *testing.T) {
	const most = 16
	clk := newClock()
	store := memorystore.New(memorystore.Options{MaxSubjects: most, Now: clk.Now})
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 2, window: 1m}")
	for i := range most {
		clk.Advance(sec)
		charge(t, g, user(i))
	}
	for i := range 4 {
		charge(t, g, user(most+i))
		for j := range most {
			if forgotten := check(t, g, user(j)).Remaining == 2; forgotten != (j <= i) {
				t.Errorf("%d new users: user %d forgotten: %v", i+1, j, forgotten)
			}
		}
	}
}

// A request never evicts what it counts in itself.
func TestARequestKeepsItsOwnCounters(t *testing.T) {
	store := memorystore.New(memorystore.Options{MaxSubjects: 1})
	g := gate(t, store, "ns", `
- {name: a, subject: user, limit: 9, window: 1h, on_exceed: {action: ban, after: 2, within: 1m, for: 1m}}
- {name: b, subject: user, limit: 3, window: 2h}
- {name: c, subject: user, limit: 9, window: 3h, algorithm: gcra}`)
	for i := range 4 {
		d := charge(t, g, admission.Request{User: "ann", ID: fmt.Sprint(i)})
		if d.Admitted != (i < 3) {
			t.Errorf("request %d: %+v", i, d)
		}
	}
	if d := charge(t, g, admission.Request{User: "ann", ID: "1"}); !d.Admitted {
		t.Errorf("the repeat of an admitted request: %+v", d)
	}
}

// A refund lowers what a counter is worth.
func TestARefundedCounterMakesRoom(t *testing.T) {
	clk := newClock()
	store := memorystore.New(memorystore.Options{MaxSubjects: 2, Now: clk.Now})
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 2, window: 1h}")
	var last admission.Decision
	for _, i := range []int{1, 1, 2, 2} {
		clk.Advance(sec)
		last = charge(t, g, user(i))
	}
	if err := g.Refund(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	charge(t, g, user(3))
	if one, two := check(t, g, user(1)).Remaining, check(t, g, user(2)).Remaining; one != 0 || two != 2 {
		t.Errorf("%d left of the user at the limit, %d of the one who was refunded", one, two)
	}
}

// Who is refused again and again is banned though the store is full.
func TestStrikesInAFullMemory(t *testing.T) {
	d := storetest.NewDesk(t, memorystore.New(memorystore.Options{MaxSubjects: 1}), nil)
	hour, day := d.Tally(store.FixedWindow, 1, time.Hour), d.Tally(store.FixedWindow, 1, 24*time.Hour)
	hour.Strikes = &store.Strikes{Key: "strikes in an hour", Window: time.Minute, Limit: 3}
	day.Strikes = &store.Strikes{Key: "strikes in a day", Window: time.Minute, Limit: 3}
	d.Do(store.Charge, hour, day)
	for i, want := range []bool{false, false, true} {
		for _, c := range d.Do(store.Charge, hour, day) {
			if c.Struck != want {
				t.Errorf("refusal %d: %+v", i+1, c)
			}
		}
	}
}

// Two counters leave for each that comes: without Run too, memory follows what counts.
func TestMemoryFollowsWhatCounts(t *testing.T) {
	clk := newClock()
	store := memorystore.New(memorystore.Options{Now: clk.Now})
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 1s}")
	for i := range 50_000 {
		clk.Advance(200 * µs) // 5000 users in a window
		charge(t, g, user(i))
	}
	if n := held(store); n > 12_000 {
		t.Errorf("%d counters where 5000 count, and as many ended in the last second", n)
	}
	clk.Advance(time.Hour)
	store.Clean()
	if n := held(store); n != 0 {
		t.Errorf("%d counters after the sweep", n)
	}
}

// Each shard reports how many counters it holds, reclaimed and evicted; the gate reports a shard that is not cleaned in time.
func TestShardsOfAMemory(t *testing.T) {
	const most = 64
	clk := newClock()
	store := memorystore.New(memorystore.Options{MaxSubjects: most, Now: clk.Now})
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 20s}")
	sum := func() (all memorystore.Stats) {
		for _, m := range store.Stats() {
			all.Subjects += m.Subjects
			all.Reclaimed += m.Reclaimed
			all.Evicted += m.Evicted
			all.Cleaned = max(all.Cleaned, m.Cleaned)
			all.Late = all.Late || m.Late
		}
		return all
	}
	for i := range most + 5 {
		if _, err := g.Charge(t.Context(), user(i)); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "full", sum(), memorystore.Stats{Subjects: most, Evicted: 5})
	clk.Advance(31 * time.Second)
	same(t, "not cleaned", sum(), memorystore.Stats{Subjects: most, Evicted: 5, Cleaned: 31 * time.Second, Late: true})
	if s := g.Stats(); !s.CleanupOverdue() {
		t.Errorf("%+v", s)
	}
	store.Clean()
	same(t, "cleaned", sum(), memorystore.Stats{Reclaimed: most, Evicted: 5})
	if s := g.Stats(); s.CleanupOverdue() || len(s.Memory) != len(store.Stats()) {
		t.Errorf("%+v", s)
	}
}

// A store whose Run was not started looks like one whose cleaner hangs.
func TestAnUncleanedMemoryIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		set, err := rules.Parse("rules.yaml", []byte("version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1m}]"))
		if err != nil {
			t.Fatal(err)
		}
		store := memorystore.New(memorystore.Options{})
		g, err := admission.NewWithStore(store, set, admission.Options{Secret: make([]byte, 16), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var run sync.WaitGroup
		run.Go(func() { _ = g.Run(ctx) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, want := strings.Count(log.String(), "a shard of the counts is not cleaned in time"), len(store.Stats()); n != want {
			t.Errorf("said %d times of %d shards:\n%s", n, want, log.String())
		}
		run.Go(func() { _ = store.Run(ctx) })
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "are cleaned in time again"); n != 1 {
			t.Errorf("said %d times that it is over:\n%s", n, log.String())
		}
		cancel()
		run.Wait()
	})
}

func TestRunGivesMemoryBackAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memorystore.New(memorystore.Options{})
		g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 15s}")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- store.Run(ctx) }()
		for i := range 3000 {
			charge(t, g, user(i))
		}
		time.Sleep(11 * time.Second) // of the bubble's time
		if n := held(store); n != 3000 {
			t.Errorf("%d counters while all count", n)
		}
		time.Sleep(10 * time.Second)
		if n := held(store); n != 0 {
			t.Errorf("%d counters after all have ended", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// A counter that ends sooner than it once would have makes room when it ends.
func TestARefundMakesRoomSooner(t *testing.T) {
	clk := newClock()
	d := storetest.NewDesk(t, memorystore.New(memorystore.Options{MaxSubjects: 1, Now: clk.Now}), clk)
	even := d.Tally(store.GCRA, 60, time.Hour) // a unit a minute
	d.One(store.Charge, even)
	most := storetest.Costing(even, 58)
	most.Stamp = d.One(store.Charge, most).Stamp
	clk.At(2 * time.Minute)
	d.One(store.Charge, even)
	d.One(store.Refund, most)
	clk.At(10 * time.Minute)
	if c := d.One(store.Charge, d.TallyOf("bob", store.GCRA, 60, time.Hour)); c.Stamp == 0 {
		t.Errorf("%+v", c)
	}
}

// held is how many counters the store holds.
func held(s *memorystore.Store) int {
	n := 0
	for _, m := range s.Stats() {
		n += m.Subjects
	}
	return n
}
