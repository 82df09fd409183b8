package admission_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

// A faulty store works, fails at once, or never answers, depending on its mood.
type faulty struct {
	store.Store
	mood  atomic.Int32
	asked atomic.Int32
}

const (
	well int32 = iota
	failing
	mute
)

func (s *faulty) Decide(ctx context.Context, call store.Call) ([]store.Count, error) {
	s.asked.Add(1)
	switch s.mood.Load() {
	case failing:
		return nil, errDown
	case mute:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Decide(ctx, call)
}

func faultyGate(t *testing.T, rules string, opts admission.Options) (*admission.Gate, *faulty) {
	t.Helper()
	store := &faulty{Store: memorystore.New(memorystore.Options{})}
	opts.Secret = secret
	g, err := admission.NewWithStore(store, parse(t, rules), opts)
	if err != nil {
		t.Fatal(err)
	}
	return g, store
}

// P23, P24: after a few failures requests no longer wait for a dead store; one request in half a second tries it.
func TestNobodyWaitsForADeadStore(t *testing.T) {
	for _, mood := range []int32{failing, mute} {
		t.Run(fmt.Sprint("mood ", mood), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, store := faultyGate(t, "- {name: r, subject: user, limit: 100, window: 1m}", admission.Options{})
				decide := func(wantAsked int32, wantDegraded bool) (took time.Duration) {
					t.Helper()
					store.asked.Store(0)
					start := time.Now()
					d, err := g.Charge(t.Context(), admission.Request{User: "ann"})
					if err != nil || !d.Admitted || d.Degraded != wantDegraded || store.asked.Load() != wantAsked {
						t.Errorf("%+v, %v after asking %d times; want degraded %v after %d", d, err, store.asked.Load(), wantDegraded, wantAsked)
					}
					return time.Since(start)
				}
				decide(1, false)
				store.mood.Store(mood)
				for range 5 {
					if took := decide(1, true); took > 150*ms {
						t.Errorf("took %v", took)
					}
				}
				if !g.Stats().Degraded {
					t.Error("the gate does not say so")
				}
				for range 10 {
					if took := decide(0, true); took != 0 {
						t.Errorf("took %v though nobody was to be asked", took)
					}
				}
				time.Sleep(500 * ms)
				decide(1, true) // one tries, in vain
				decide(0, true)
				time.Sleep(500 * ms)
				store.mood.Store(well)
				decide(1, false)
				decide(1, false)
				if g.Stats().Degraded {
					t.Error("the gate does not say that it is well again")
				}
			})
		})
	}
}

// After the pause one of the concurrent requests tries the store; the others do not wait for it.
func TestOneTriesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := faultyGate(t, "- {name: r, subject: user, limit: 100, window: 1m}", admission.Options{})
		store.mood.Store(mute)
		ask := func(n int) {
			for range n {
				go func() {
					if d, err := g.Charge(t.Context(), admission.Request{User: "ann"}); err != nil || !d.Degraded {
						t.Errorf("%+v, %v", d, err)
					}
				}()
			}
			synctest.Wait()
		}
		ask(5)
		time.Sleep(time.Second)
		store.asked.Store(0)
		ask(100)
		if n := store.asked.Load(); n != 1 {
			t.Errorf("%d of 100 ask a store that did not answer", n)
		}
		time.Sleep(time.Second) // all goroutines end before the bubble does
	})
}

// A failure now and then is no reason to stop asking, and neither is a caller without time.
func TestTheBreakerCountsWhatTheStoreDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := faultyGate(t, "- {name: r, subject: user, limit: 100, window: 1m}", admission.Options{})
		for range 10 {
			for range 4 {
				store.mood.Store(failing)
				_, _ = g.Charge(t.Context(), admission.Request{User: "ann"})
			}
			store.mood.Store(well)
			charge(t, g, admission.Request{User: "ann"})
		}
		store.mood.Store(mute)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), ms)
			_, _ = g.Charge(ctx, admission.Request{User: "ann"})
			cancel()
		}
		if g.Stats().Degraded {
			t.Error("the breaker is open")
		}
	})
}

// While the store is unavailable a local rule admits this process' share of its limit.
func TestLocalFallback(t *testing.T) {
	const rules = `
- {name: local, subject: user, limit: 10, window: 1m, on_store_error: local}
- {name: open, subject: user, limit: 1, window: 1m}
`
	for _, c := range []struct {
		share float64
		want  int
	}{{0, 10}, {0.5, 5}, {0.25, 2}, {0.01, 1}, {1, 10}} {
		t.Run(fmt.Sprint(c.share), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, store := faultyGate(t, rules, admission.Options{LocalShare: c.share})
				store.mood.Store(failing)
				admitted := 0
				for range 20 {
					d, err := g.Charge(t.Context(), admission.Request{User: "ann"})
					if err != nil || !d.Degraded || len(d.Rules) != 1 || d.Rule != "local" || d.Limit != c.want {
						t.Fatalf("%+v, %v", d, err)
					}
					if d.Admitted {
						admitted++
					} else if d.Reason != admission.RateLimited || d.RetryAfter != time.Minute {
						t.Errorf("%+v", d)
					}
				}
				if admitted != c.want {
					t.Errorf("admitted %d, want %d", admitted, c.want)
				}
				store.mood.Store(well)
				time.Sleep(time.Second)
				if d := charge(t, g, admission.Request{User: "ann"}); !d.Admitted || d.Rules[0].Remaining != 9 {
					t.Errorf("back at the store: %+v", d)
				}
			})
		})
	}
}

func TestLocalFallbackBesideOthers(t *testing.T) {
	const local = "- {name: local, subject: user, limit: 10, window: 1m, on_store_error: local}\n"
	for _, c := range []struct {
		name, rules string
		cost        int
		admitted    bool
		err         error
	}{
		{"closed wins", local + "- {name: closed, subject: user, limit: 10, window: 1m, on_store_error: closed}", 1, false, admission.ErrUnavailable},
		{"a shadow neither counts nor refuses", local + "- {name: s, subject: user, limit: 1, window: 1m, on_store_error: local, shadow: true}", 5, true, nil},
		{"a cost above the limit", local, 11, false, nil},
		{"a cost above the part", local, 6, false, nil},
		{"a direct rule has its say", local + "- {name: d, algorithm: direct, action: deny}", 1, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, store := faultyGate(t, c.rules, admission.Options{LocalShare: 0.5})
			store.mood.Store(failing)
			d, err := g.Charge(t.Context(), admission.Request{User: "ann", Cost: c.cost})
			if d.Admitted != c.admitted || !errors.Is(err, c.err) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}
