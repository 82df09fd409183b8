package admission_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/store"
	"github.com/tidegate/tidegate/admission/store/memorystore"
)

// A watched store notes what it is asked. Its hook, if any, runs after each call has been decided and before it is answered.
type watched struct {
	store.Store

	mu    sync.Mutex
	calls []store.Call // guarded by mu
	hook  func()
}

func (s *watched) Decide(ctx context.Context, call store.Call) ([]store.Count, error) {
	if err := ctx.Err(); err != nil { // as a store on a server
		return nil, err
	}
	s.mu.Lock()
	s.calls = append(s.calls, call)
	s.mu.Unlock()
	counts, err := s.Store.Decide(ctx, call)
	if s.hook != nil {
		s.hook()
	}
	return counts, err
}

// asked returns how often the store was asked since the last time.
func (s *watched) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.calls)
	s.calls = nil
	return n
}

// watch returns a gate with its own memory store, and that store. Time is that of the synctest bubble.
func watch(t *testing.T, rules string) (*admission.Gate, *watched) {
	t.Helper()
	store := &watched{Store: memorystore.New(memorystore.Options{})}
	return quickGate(t, store, rules), store
}

// quickGate returns a gate with the settings of production.
func quickGate(t testing.TB, st store.Store, rules string) *admission.Gate {
	t.Helper()
	g, err := admission.NewWithStore(st, parse(t, rules), admission.Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// P17: a denial is remembered until it would end, and for a second at most.
func TestWhoWasRefusedIsRefusedWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, "- {name: r, subject: user, limit: 1, window: 2500ms}")
		req := admission.Request{User: "ann"}
		charge(t, g, req)
		first := charge(t, g, req)
		if store.asked() != 2 || first.Admitted {
			t.Fatalf("the first denial: %+v", first)
		}
		time.Sleep(300 * ms)
		d := charge(t, g, req)
		if store.asked() != 0 {
			t.Error("the store was asked again after 300 ms")
		}
		want := first
		want.RetryAfter, want.ResetAfter, want.At = 2200*ms, 2200*ms, first.At.Add(300*ms)
		want.Rules = []admission.Verdict{first.Rules[0]}
		want.Rules[0].RetryAfter, want.Rules[0].ResetAfter = 2200*ms, 2200*ms
		if diff := cmp.Diff(want, d, ignoreReceipt); diff != "" {
			t.Errorf("from memory (-want +got):\n%s", diff)
		}
		for _, s := range []struct {
			after time.Duration
			asked int
			in    bool
		}{
			{699 * ms, 0, false},  // 999 ms after the denial
			{1 * ms, 1, false},    // 1 s: asked again, and remembered again
			{999 * ms, 0, false},  // 1.999 s
			{1 * ms, 1, false},    // 2 s: 500 ms are left
			{499 * ms, 0, false},  // 2.499 s
			{1 * ms, 1, true},     // 2.5 s: there is room
			{2499 * ms, 1, false}, // the next denial
		} {
			time.Sleep(s.after)
			if d, asked := charge(t, g, req), store.asked(); d.Admitted != s.in || asked != s.asked {
				t.Errorf("%v later: admitted %v, asked %d times; want %v, %d", s.after, d.Admitted, asked, s.in, s.asked)
			}
		}
	})
}

func TestADenialKeepsItsLowestCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, "- {name: r, subject: user, limit: 5, window: 1m}")
		for _, s := range []struct {
			cost, asked int
			in          bool
		}{
			{3, 1, true},
			{4, 1, false},
			{5, 0, false},
			{4, 0, false},
			{3, 1, false},
			{4, 0, false},
			{3, 0, false},
			{2, 1, true},
			{1, 1, false},
			{2, 0, false},
			{7, 0, false},
		} {
			d := charge(t, g, admission.Request{User: "ann", Cost: s.cost})
			if asked := store.asked(); d.Admitted != s.in || asked != s.asked {
				t.Fatalf("cost %d: admitted %v, asked %d times; want %v, %d", s.cost, d.Admitted, asked, s.in, s.asked)
			}
		}
	})
}

func TestADenialHoldsForItsCounterOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, `
- {name: r, subject: [user, device], limit: {registered: 1, gold: 2}, window: 1m}
- {name: planned, subject: session, limit: 1, window: 1m, shadow: true}
`)
		ann := admission.Request{User: "ann", Device: "phone", Session: "s"}
		charge(t, g, ann)
		charge(t, g, ann)
		store.asked()
		tablet, gold, swapped := ann, ann, ann
		tablet.Device, gold.Tier, swapped.User, swapped.Device = "tablet", "gold", "phone", "ann"
		for name, req := range map[string]admission.Request{"another device": tablet, "another tier": gold, "swapped": swapped} {
			if d := charge(t, g, req); !d.Admitted || store.asked() != 1 {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if d := charge(t, g, ann); d.Admitted || store.asked() != 0 {
			t.Errorf("the same again: %+v", d)
		}
		shadow := admission.Request{Session: "s"}
		for range 3 {
			if d := charge(t, g, shadow); !d.Admitted || store.asked() != 1 {
				t.Errorf("a rule that only reports: %+v", d)
			}
		}
	})
}

// A resend gets the answer of the first, also when its subject has been refused since.
func TestAResendIsNoNewRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := watch(t, "- {name: r, subject: user, limit: 1, window: 1m}")
		first := admission.Request{User: "ann", ID: "first"}
		want := charge(t, g, first)
		if d := charge(t, g, admission.Request{User: "ann"}); d.Admitted {
			t.Fatalf("a second request: %+v", d)
		}
		time.Sleep(ms)
		if diff := cmp.Diff(want, charge(t, g, first), ignoreReceipt); diff != "" {
			t.Errorf("the resend (-first +again):\n%s", diff)
		}
	})
}

// P16: what is taken back must not be refused any longer.
// The refusal that is kept for a request id says nothing of the window a while later.
func TestAResentRefusalIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := watch(t, "- {name: r, subject: user, limit: 1, window: 500ms}")
		charge(t, g, admission.Request{User: "ann"})
		resent := admission.Request{User: "ann", ID: "again"}
		for range 2 {
			if d := charge(t, g, resent); d.Admitted {
				t.Errorf("%+v", d)
			}
			time.Sleep(10 * time.Second)
		}
		if d := charge(t, g, resent); d.Admitted {
			t.Errorf("%+v", d)
		}
		if d := charge(t, g, admission.Request{User: "ann"}); !d.Admitted {
			t.Errorf("%+v after the window", d)
		}
	})
}

func TestTakingBackEndsADenial(t *testing.T) {
	for name, takeBack := range map[string]func(*admission.Gate, admission.Decision) error{
		"refund": func(g *admission.Gate, d admission.Decision) error { return g.Refund(context.Background(), d) },
		"refund by id": func(g *admission.Gate, _ admission.Decision) error {
			_, err := g.RefundRequest(context.Background(), admission.Request{User: "ann", ID: "first"})
			return err
		},
		"reset": func(g *admission.Gate, _ admission.Decision) error {
			_, err := g.Reset(context.Background(), admission.Request{User: "ann"}, "")
			return err
		},
		"reload": func(g *admission.Gate, _ admission.Decision) error {
			setRules(t, g, parse(t, "- {name: r, subject: user, limit: 2, window: 1m}"))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, _ := watch(t, "- {name: r, subject: user, limit: 1, window: 1m}")
				first := charge(t, g, admission.Request{User: "ann", ID: "first"})
				req := admission.Request{User: "ann"}
				for range 2 { // by the store, and from memory
					if charge(t, g, req).Admitted {
						t.Fatal("two are in")
					}
				}
				if err := takeBack(g, first); err != nil {
					t.Fatal(err)
				}
				if d := charge(t, g, req); !d.Admitted {
					t.Errorf("after it: %+v", d)
				}
			})
		})
	}
}

// P16: a denial that is on its way here while its reason is taken back is not remembered.
func TestADenialThatIsTakenBackOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, "- {name: r, subject: user, limit: 1, window: 1m}")
		req := admission.Request{User: "ann"}
		first := charge(t, g, req)
		store.hook = func() {
			store.hook = nil
			if err := g.Refund(t.Context(), first); err != nil {
				t.Error(err)
			}
		}
		if d := charge(t, g, req); d.Admitted {
			t.Fatalf("decided before the refund: %+v", d)
		}
		if d := charge(t, g, req); !d.Admitted {
			t.Errorf("after the refund: %+v", d)
		}
	})
}

func TestAnotherProcessHearsWhatIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := watch(t, "- {name: r, subject: user, limit: 1, window: 1m}")
		other := quickGate(t, store, "- {name: r, subject: user, limit: 1, window: 1m}")
		defer running(t, other)()
		req := admission.Request{User: "ann"}
		first := charge(t, g, req)
		charge(t, other, req)
		if err := g.Refund(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if d := charge(t, other, req); !d.Admitted {
			t.Errorf("in the other process: %+v", d)
		}
	})
}

// running runs g until the returned function is called.
func running(t *testing.T, g *admission.Gate) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// Refusals that never reached the store are counted there once a second by rules that count them, and by no other.
func TestRefusalsWithoutTheStoreAreCountedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, st := watch(t, `
- {name: counts, subject: user, limit: 3, window: 1m, count_rejected: true}
- {name: does-not, subject: device, limit: 1, window: 1m}
`)
		stop := running(t, g)
		ann := admission.Request{User: "ann", Cost: 3}
		charge(t, g, ann)
		charge(t, g, ann) // refused and counted
		for range 4 {
			charge(t, g, ann)
		}
		for range 3 {
			charge(t, g, admission.Request{Device: "phone"})
		}
		for range 5 {
			check(t, g, ann) // to look is no refusal
		}
		st.asked()
		time.Sleep(flushes)
		synctest.Wait()
		st.mu.Lock()
		calls := st.calls
		st.mu.Unlock()
		if len(calls) != 1 || calls[0].Mode != store.Reject || len(calls[0].Tallies) != 1 {
			t.Fatalf("flushed %+v", calls)
		}
		if tally := calls[0].Tallies[0]; tally.Cost != 12 || tally.Refusals != 4 {
			t.Errorf("flushed cost %d of %d refusals, want 12 of 4", tally.Cost, tally.Refusals)
		}
		st.asked()
		charge(t, g, ann)
		charge(t, g, ann)
		stop()
		if n := st.asked(); n != 2 { // one question, one flush
			t.Errorf("asked %d times, want once, and once for what the end left", n)
		}
	})
}

const flushes = time.Second

// ignoreReceipt leaves out of a comparison of decisions what only Refund reads.
var ignoreReceipt = cmpopts.IgnoreUnexported(admission.Decision{})

// P21, P19: an attack from a million subjects costs a bounded room.
func TestTheDenyCacheIsBounded(t *testing.T) {
	store := &watched{Store: memorystore.New(memorystore.Options{})}
	g, err := admission.NewWithStore(store, parse(t, "- {name: r, subject: user, limit: 1, window: 1m}"), admission.Options{Secret: secret, DenyCache: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		charge(t, g, admission.Request{User: fmt.Sprint(i), Cost: 2})
	}
	g.SettleDenyCache()
	if n := g.Stats().Denials; n == 0 || n > 100 {
		t.Errorf("%d denials remembered, want at most 100", n)
	}
}

// Without Run nobody takes what is to be counted.
func TestPendingRefusalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1 << 16
		rule := parse(t, "- {name: r, subject: user, limit: 1, window: 1h, count_rejected: true}")
		g, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), rule, admission.Options{Secret: secret, DenyCache: -1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range most + 10 {
			user := admission.Request{User: strconv.Itoa(i)}
			charge(t, g, user)
			chargeUnless(t, g, user, false) // refused
		}
		if n := g.PendingRefusals(); n != most {
			t.Errorf("%d counters have refusals to be counted, want %d", n, most)
		}
	})
}

// Refusals that one server of a cluster does not count do not keep decisions from the others.
func TestRefusalsThatAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &uncounted{Store: memorystore.New(memorystore.Options{})}
		g, err := admission.NewWithStore(store, parse(t, "- {name: r, subject: user, limit: 1, window: 1h, count_rejected: true}"), admission.Options{
			Secret: secret, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			for range 3 { // admitted, refused by the store, and by the cache
				charge(t, g, admission.Request{User: strconv.Itoa(i)})
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if n := g.PendingRefusals(); store.refused.Load() != 10 || n != 0 {
			t.Errorf("%d batches were sent, want 10, and %d refusals are left", store.refused.Load(), n)
		}
		if d := charge(t, g, admission.Request{User: "bob"}); !d.Admitted || d.Degraded {
			t.Errorf("%+v", d)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A stop in the middle of counting refusals loses none of them.
func TestAStopCountsTheRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		st := &watched{Store: memorystore.New(memorystore.Options{})}
		g := quickGate(t, st, "- {name: r, subject: user, limit: 1, window: 1h, count_rejected: true}")
		for i := range 1000 {
			for range 3 {
				charge(t, g, admission.Request{User: strconv.Itoa(i)})
			}
		}
		st.asked()
		st.hook = cancel
		if err := g.Run(ctx); err != nil {
			t.Error(err)
		}
		if n := st.asked(); n != 10 {
			t.Errorf("%d batches were counted, want 10", n)
		}
	})
}

// uncounted is a store that does not count refusals.
type uncounted struct {
	store.Store
	refused atomic.Int32
}

func (s *uncounted) Decide(ctx context.Context, call store.Call) ([]store.Count, error) {
	if call.Mode == store.Reject {
		s.refused.Add(1)
		return nil, admission.ErrUnavailable
	}
	return s.Store.Decide(ctx, call)
}

func TestNoDenyCache(t *testing.T) {
	store := &watched{Store: memorystore.New(memorystore.Options{})}
	g, err := admission.NewWithStore(store, parse(t, "- {name: r, subject: user, limit: 1, window: 1m}"), admission.Options{Secret: secret, DenyCache: -1})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		charge(t, g, admission.Request{User: "ann"})
	}
	if n := store.asked(); n != 5 {
		t.Errorf("asked %d times of 5", n)
	}
}

// TestStats: hits and misses distinguish requests that the cache refused from others.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := watch(t, "- {name: r, subject: user, limit: 1, window: 1m}")
		for range 5 {
			charge(t, g, admission.Request{User: "ann"})
		}
		if _, err := g.Check(t.Context(), admission.Request{User: "bob"}); err != nil { // asks the store, and is no charge
			t.Error(err)
		}
		s := g.Stats()
		if s.StoreCalls != 2 || s.DenyHits != 3 || s.DenyMisses != 3 || s.Denials != 1 || s.Version != g.Rules().Version() || s.Degraded || s.RulesFailed || s.Processes != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A store of a cluster may need longer for a hundred refusals than a caller would wait, and one node may not answer.
func TestABatchOfRefusalsThatFailsDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slowRejects{Store: memorystore.New(memorystore.Options{})}
		g := quickGate(t, st, "- {name: counts, subject: user, limit: 1, window: 1m, count_rejected: true}")
		stop := running(t, g)
		for i := range 150 {
			for range 3 { // admitted, refused by the store, refused without it
				charge(t, g, admission.Request{User: "u" + strconv.Itoa(i)})
			}
		}
		time.Sleep(3 * time.Second)
		stop()
		if st.batches != 2 || st.counted != 50 {
			t.Errorf("%d batches sent, and refusals of %d subjects counted, want 2 and the 50 of the second batch", st.batches, st.counted)
		}
	})
}

// slowRejects takes half a second to count refusals, and fails at the first ones.
type slowRejects struct {
	store.Store
	batches, counted int
}

func (s *slowRejects) Decide(ctx context.Context, call store.Call) ([]store.Count, error) {
	if call.Mode == store.Reject {
		s.batches++
		time.Sleep(500 * time.Millisecond)
		if s.batches == 1 {
			return nil, errors.New("no answer")
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.counted += len(call.Tallies)
	}
	return s.Store.Decide(ctx, call)
}

// A denial from before the clock of the process was set back ends at once.
func TestADenialOfTheFutureIsNotInForce(t *testing.T) {
	clk := newClock()
	store := &watched{Store: memorystore.New(memorystore.Options{Now: clk.Now})}
	set := parse(t, "- {name: r, subject: user, limit: 1, window: 1m}")
	g, err := admission.NewWithStore(store, set, admission.Options{Secret: secret, Now: clk.Now})
	if err != nil {
		t.Fatal(err)
	}
	clk.At(24 * time.Hour)
	for range 2 {
		charge(t, g, admission.Request{User: "ann"})
	}
	store.asked()
	clk.At(0)
	if d := charge(t, g, admission.Request{User: "ann"}); store.asked() != 1 || d.RetryAfter != time.Minute {
		t.Errorf("after the clock was set right: %+v", d)
	}
	clk.At(time.Minute)
	if d := charge(t, g, admission.Request{User: "ann"}); !d.Admitted {
		t.Errorf("a minute later: %+v", d)
	}
}
