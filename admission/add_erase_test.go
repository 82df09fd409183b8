package admission_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/admission/store/redisstore"
	"github.com/tidegate/tidegate/admission/store/storetest"
)

// Units added to a full store evict another subject.
func TestAddToAFullStore(t *testing.T) {
	st := memorystore.New(memorystore.Options{MaxSubjects: 2})
	d := storetest.NewDesk(t, st, nil)
	d.Do(store.Add, d.TallyOf("ann", store.FixedWindow, 1, time.Hour), d.TallyOf("bob", store.FixedWindow, 1, time.Hour))
	for cost, name := range []string{1: "cat", 2: "dan"} { // as a request that fits, and as one that does not
		if cost == 0 {
			continue
		}
		d.Do(store.Add, storetest.Costing(d.TallyOf(name, store.FixedWindow, 1, time.Hour), cost))
		if n := d.Left(d.TallyOf(name, store.FixedWindow, 5, time.Hour)); n != 5-cost {
			t.Errorf("%s has %d left, want %d", name, n, 5-cost)
		}
		if n := held(st); n != 2 {
			t.Errorf("%d counters in a store of two", n)
		}
	}
}

// A log of which nothing is left is forgotten, and one of which something is left lives no longer than before.
func TestWhatIsLeftOfAnErasedLog(t *testing.T) {
	st := memorystore.New(memorystore.Options{})
	d := storetest.NewDesk(t, st, nil)
	log := d.Tally(store.SlidingLog, 5, time.Hour)
	d.One(store.Charge, storetest.Costing(log, 2))
	for i, want := range []int{1, 0, 0} {
		d.One(store.Erase, log)
		if n := held(st); n != want {
			t.Errorf("after %d: %d counters in memory, want %d", i+1, n, want)
		}
	}
	for _, server := range []string{"redis", "cluster"} {
		t.Run(server, func(t *testing.T) {
			rdb := dialKind(t, server)
			d := storetest.NewDesk(t, redisstore.New(rdb), nil)
			log := d.Tally(store.SlidingLog, 5, time.Hour)
			d.One(store.Charge, storetest.Costing(log, 2))
			const shorter = 10 * time.Minute // than what a charge would set
			if err := rdb.PExpire(t.Context(), log.Key, shorter).Err(); err != nil {
				t.Fatal(err)
			}
			d.One(store.Erase, log)
			if ttl := rdb.PTTL(t.Context(), log.Key).Val(); ttl <= 0 || ttl > shorter {
				t.Errorf("the key ends in %v, want %v", ttl, shorter)
			}
			d.One(store.Erase, log)
			if n := rdb.Exists(t.Context(), log.Key).Val(); n != 0 {
				t.Error("the key of an empty log is there")
			}
			if diff := cmp.Diff([]int{4, 5}, []int{d.One(store.Add, log).Remaining, d.One(store.Erase, log).Remaining}); diff != "" {
				t.Errorf("anew (-want +got):\n%s", diff)
			}
		})
	}
}
