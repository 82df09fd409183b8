package memorystore_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

// BenchmarkMemoryStore decides for 100,000 subjects at random, 256 callers at once: at 100 a second most are admitted, at 10 a minute
// most refused.
func BenchmarkMemoryStore(b *testing.B) {
	subjects := make([]string, 100_000)
	for i := range subjects {
		subjects[i] = fmt.Sprintf("tidegate:w:{%022d}:12345678", i)
	}
	for _, algorithm := range []store.Algorithm{
		store.SlidingLog, store.SlidingCounter, store.FixedWindow, store.GCRA, store.TwoStage,
	} {
		for _, quota := range []struct {
			limit  int
			window time.Duration
		}{{100, time.Second}, {10, time.Minute}} {
			b.Run(fmt.Sprintf("%s/%d in %v", algorithm, quota.limit, quota.window), func(b *testing.B) {
				st := memorystore.New(memorystore.Options{})
				b.SetParallelism(256 / runtime.GOMAXPROCS(0))
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					tallies := []store.Tally{{
						Algorithm: algorithm, Limit: quota.limit, Window: store.Window{Length: quota.window}, Cost: 1,
						Base: &store.Base{Limit: quota.limit, Window: store.Window{Length: quota.window}},
					}}
					for pb.Next() {
						tallies[0].Key = subjects[rand.IntN(len(subjects))]
						tallies[0].Subject = tallies[0].Key
						if _, err := st.Decide(b.Context(), store.Call{Mode: store.Charge, Tallies: tallies}); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

// BenchmarkAFullMemoryStore decides for a subject that is new each time, which evicts another.
func BenchmarkAFullMemoryStore(b *testing.B) {
	st := memorystore.New(memorystore.Options{})
	call := store.Call{Mode: store.Charge, Tallies: []store.Tally{{Limit: 100, Window: store.Window{Length: time.Hour}, Cost: 1}}}
	for i := range 1<<18 + b.N {
		if i == 1<<18 {
			b.ResetTimer()
		}
		call.Tallies[0].Key = fmt.Sprint(i)
		if _, err := st.Decide(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}
