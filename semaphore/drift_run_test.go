package semaphore_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/semaphore"
)

// Random operations, with processes that die and replies that are lost: what is in use is always the sum of the permits that stand in
// Redis, and when all processes are dead and a lease has passed, nothing is left.
func TestNothingDrifts(t *testing.T) {
	seed := *driftSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-ops %d -seed %d", *driftOps, seed)
	h := newHouse(t, testenv.Redis(t))
	d := &drifter{t: t, house: h, rdb: h.client(), names: []string{"a", "b", "c"}}
	for i := range 6 {
		way := h.client()
		if i >= 4 {
			way = h.lossy(0.02)
		}
		d.ways, d.sets = append(d.ways, way), append(d.sets, d.newSet(way))
	}
	for _, name := range d.names {
		h.defined(name, 5, driftLease)
	}
	d.auditor = h.set()
	const goroutines, burst = 16, 400
	for done, round := 0, uint64(0); done < *driftOps; done, round = done+burst, round+1 {
		var wg sync.WaitGroup
		for g := range uint64(goroutines) {
			r := rand.New(rand.NewPCG(seed, round*goroutines+g))
			wg.Go(func() {
				for range burst / goroutines {
					d.step(r)
				}
			})
		}
		wg.Wait()
		d.audit()
	}
	d.counts.Range(func(what, n any) bool {
		t.Logf("%6d %s", n.(*atomic.Int64).Load(), what)
		return true
	})
	// There are no waiters left, so the queue must be empty although all processes are alive.
	for _, name := range d.names {
		await(t, of(t, d.auditor, name), func(st semaphore.Status) bool { return st.Waiting == 0 })
	}
	for _, set := range d.sets {
		stop(set)
	}
	for _, name := range d.names {
		st := await(t, of(t, d.auditor, name), func(st semaphore.Status) bool { return st.InUse == 0 && st.Waiting == 0 })
		if l := readLedger(t, d.rdb, d.prefix(name)); len(l.holders)+len(l.queue)+len(l.entries)+len(l.weights) != 0 {
			t.Errorf("%s: left behind: %+v", name, l)
		}
		t.Logf("%s at the end: %+v", name, st.Totals)
	}
	checkTTL(t, d.rdb, h)
	for _, name := range d.names { // and it works
		p, full, err := of(t, d.auditor, name).TryAcquire(soon(t))
		if p == nil {
			t.Fatal(full, err)
		}
		release(t, p)
	}
}
