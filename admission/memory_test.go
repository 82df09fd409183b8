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
)

func user(i int) admission.Request { return admission.Request{User: fmt.Sprint(i)} }

// A full store forgets nobody who counts: it cannot count a new subject, and each rule says what that means.
func TestAFullMemory(t *testing.T) {
	const most = 64
	clk := newClock()
	store := admission.NewMemoryStore(admission.MemoryOptions{MaxSubjects: most, Now: clk.Now})
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 1m}")
	var counted []int
	for i := range 10 * most {
		d, err := g.Charge(t.Context(), user(i))
		if err != nil || !d.Admitted {
			t.Fatalf("user %d: %+v, %v", i, d, err)
		}
		if !d.Degraded {
			counted = append(counted, i)
		}
	}
	if n := store.Counters(); n != most || len(counted) != most {
		t.Errorf("%d counters, %d users counted, want %d", n, len(counted), most)
	}
	for _, i := range counted {
		if d := charge(t, g, user(i)); d.Admitted {
			t.Errorf("user %d was forgotten", i)
		}
	}
	closed := gate(t, store, "ns", "- {name: s, subject: user, limit: 1, window: 1m, on_store_error: closed}")
	if _, err := closed.Charge(t.Context(), user(0)); err == nil {
		t.Error("a closed rule admits what it cannot count")
	}

	clk.At(time.Minute) // all have ended
	for i := range most / 4 {
		if d := charge(t, g, user(-1-i)); !d.Admitted {
			t.Errorf("new user %d: %+v", i, d)
		}
	}
	if n := store.Counters(); n > most {
		t.Errorf("%d counters, want at most %d", n, most)
	}
}

// Two counters leave for each that comes: without Run too, memory follows what counts.
func TestMemoryFollowsWhatCounts(t *testing.T) {
	clk := newClock()
	store := admission.NewMemoryStore(admission.MemoryOptions{Now: clk.Now})
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 1s}")
	for i := range 50_000 {
		clk.Advance(200 * µs) // 5000 users in a window
		charge(t, g, user(i))
	}
	if n := store.Counters(); n > 12_000 {
		t.Errorf("%d counters where 5000 count, and as many ended in the last second", n)
	}
	clk.Advance(time.Hour)
	store.Sweep()
	if n := store.Counters(); n != 0 {
		t.Errorf("%d counters after the sweep", n)
	}
}

// Each shard says what it holds, what it gave back and whom it had no room for; and the gate says so when one is not cleaned in time.
func TestShardsOfAMemory(t *testing.T) {
	const most = 64
	clk := newClock()
	store := admission.NewMemoryStore(admission.MemoryOptions{MaxSubjects: most, Now: clk.Now})
	g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 20s}")
	sum := func() (all admission.MemoryStats) {
		for _, m := range store.Stats() {
			all.Subjects += m.Subjects
			all.Reclaimed += m.Reclaimed
			all.Refused += m.Refused
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
	same(t, "full", sum(), admission.MemoryStats{Subjects: most, Refused: 5})
	clk.Advance(31 * time.Second)
	same(t, "not cleaned", sum(), admission.MemoryStats{Subjects: most, Refused: 5, Cleaned: 31 * time.Second, Late: true})
	if s := g.Stats(); !s.Uncleaned() {
		t.Errorf("%+v", s)
	}
	store.Sweep()
	same(t, "cleaned", sum(), admission.MemoryStats{Reclaimed: most, Refused: 5})
	if s := g.Stats(); s.Uncleaned() || len(s.Memory) != len(store.Stats()) {
		t.Errorf("%+v", s)
	}
}

// A store whose Run nobody has started is what a cleaner that hangs looks like.
func TestAnUncleanedMemoryIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		rules, err := admission.ParseRules("rules.yaml", []byte("version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1m}]"))
		if err != nil {
			t.Fatal(err)
		}
		store := admission.NewMemoryStore(admission.MemoryOptions{})
		g, err := admission.New(store, rules, admission.Options{Secret: make([]byte, 16), Logger: slog.New(slog.NewTextHandler(&log, nil))})
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
		store := admission.NewMemoryStore(admission.MemoryOptions{})
		g := gate(t, store, "ns", "- {name: r, subject: user, limit: 1, window: 15s}")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- store.Run(ctx) }()
		for i := range 3000 {
			charge(t, g, user(i))
		}
		time.Sleep(11 * time.Second) // of the bubble's time
		if n := store.Counters(); n != 3000 {
			t.Errorf("%d counters while all count", n)
		}
		time.Sleep(10 * time.Second)
		if n := store.Counters(); n != 0 {
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
	d := &desk{t, admission.NewMemoryStore(admission.MemoryOptions{MaxSubjects: 1, Now: clk.Now}), clk, namespace()}
	even := d.tally(admission.GCRA, 60, time.Hour) // a unit a minute
	d.one(doCharge, even)
	most := costing(even, 58)
	most.Stamp = d.one(doCharge, most).Stamp
	clk.At(2 * time.Minute)
	d.one(doCharge, even)
	d.one(doRefund, most)
	clk.At(10 * time.Minute)
	if c := d.one(doCharge, d.tallyOf("bob", admission.GCRA, 60, time.Hour)); c.Stamp == 0 {
		t.Errorf("%+v", c)
	}
}
