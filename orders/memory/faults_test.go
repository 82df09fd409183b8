package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/orders"
	"github.com/tidegate/tidegate/orders/internal/liveness"
	"github.com/tidegate/tidegate/orders/internal/storage"
	"github.com/tidegate/tidegate/orders/memory"
	"github.com/tidegate/tidegate/orders/shop"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, got, want any, what string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// put defines a sale of three units of one item.
func put(t *testing.T, s *memory.Store) orders.Sale {
	t.Helper()
	start := time.Now()
	sale, _, _, err := s.PutSale(t.Context(), orders.Sale{
		ID: "spring", StartsAt: start, EndsAt: start.Add(time.Hour), Hold: time.Minute,
		Items: []orders.Item{{ID: "hat", Stock: 3, QuotaPerBuyer: 1, InFlightMax: 1}},
	})
	must(t, err)
	return sale
}

func reservation(unit int) orders.Reservation {
	return orders.Reservation{
		ID: orders.ID{0: 0x80, 15: byte(unit)}, Epoch: 1, Sale: "spring", Item: "hat", BuyerHash: fmt.Sprint("hash-", unit),
		Quantity: 1, Units: []int{unit},
	}
}

func commit(t *testing.T, s *memory.Store, units ...int) {
	t.Helper()
	for _, unit := range units {
		verdicts, err := s.Commit(t.Context(), []orders.Reservation{reservation(unit)})
		must(t, err)
		want(t, verdicts, []storage.Verdict{{Status: orders.StatusConfirmed}}, "verdicts")
	}
}

// statuses returns those of the orders of the units 1 to 3.
func statuses(t *testing.T, s *memory.Store) (list []orders.Status) {
	t.Helper()
	ids := []orders.ID{reservation(1).ID, reservation(2).ID, reservation(3).ID}
	found, err := s.Statuses(t.Context(), ids)
	must(t, err)
	for _, id := range ids {
		list = append(list, found[id])
	}
	return list
}

// TestEveryOperationCanFail: Around gets the name of each method, and the caller nothing but the error.
func TestEveryOperationCanFail(t *testing.T) {
	reads := []memory.Op{
		"CheckSchema", "Committed", "DeadLetter", "DeadLetters", "Differing", "Events", "HandOver", "Holdings", "IDKey", "Inspect",
		"Installation", "Late", "Latest", "Lead", "Newest", "NextExpiry", "Orders", "Owners", "Ping",
		"Returns", "Sales", "Statuses", "Totals", "Unsettled",
	}
	var asked []memory.Op
	s := memory.New(memory.Options{Faults: memory.Faults{Around: func(_ context.Context, op memory.Op, _ func() error) error {
		asked = append(asked, op)
		return io.ErrUnexpectedEOF
	}}})
	for contract := reflect.TypeFor[storage.Store](); len(asked) < contract.NumMethod(); {
		method := contract.Method(len(asked))
		args := []reflect.Value{reflect.ValueOf(s), reflect.ValueOf(t.Context())}
		for i := 1; i < method.Type.NumIn(); i++ {
			args = append(args, reflect.Zero(method.Type.In(i)))
		}
		results := reflect.ValueOf(s).MethodByName(method.Name).Call(args[1:])
		last := len(results) - 1
		for _, result := range results[:last] {
			if !result.IsZero() {
				t.Errorf("%s returns %v beside its error", method.Name, result)
			}
		}
		err, _ := results[last].Interface().(error)
		if !errors.Is(err, orders.ErrUnavailable) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", method.Name, err)
		}
		op := memory.Op(method.Name)
		if len(asked) == 0 || asked[len(asked)-1] != op {
			t.Fatalf("%s is no operation: %v", method.Name, asked)
		}
		if op.Writes() == slices.Contains(reads, op) {
			t.Errorf("%s writes: %t", op, op.Writes())
		}
	}
}

func TestFaults(t *testing.T) {
	lost := func(memory.Op) error { return memory.ErrConnectionLost }
	fails := func(err error) func(context.Context, memory.Op, func() error) error {
		return memory.Before(func(memory.Op) error { return err })
	}
	none, all := []orders.Status{"", "", ""}, []orders.Status{orders.StatusConfirmed, "", ""}
	for name, c := range map[string]struct {
		around func(context.Context, memory.Op, func() error) error
		kind   error
		cause  error
		want   []orders.Status
	}{
		"before":          {fails(memory.ErrConnectionLost), orders.ErrUnavailable, memory.ErrConnectionLost, none},
		"lost reply":      {memory.After(lost), orders.ErrUnavailable, memory.ErrConnectionLost, all},
		"read only":       {memory.Standby, orders.ErrUnavailable, memory.ReadOnly, none},
		"refused":         {fails(memory.CheckViolation), orders.ErrPoison, memory.CheckViolation, none},
		"always deadlock": {fails(memory.DeadlockDetected), orders.ErrUnavailable, memory.DeadlockDetected, none},
		"a conflict":      {fails(storage.SwitchFinal("spring")), orders.ErrConflict, nil, none},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.New(memory.Options{})
			put(t, s)
			verdicts, err := s.Connect(memory.Faults{Around: c.around}).Commit(t.Context(), []orders.Reservation{reservation(1)})
			if verdicts != nil || !errors.Is(err, c.kind) || c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("%v, %v", verdicts, err)
			}
			want(t, statuses(t, s), c.want, "statuses")
		})
	}
}

// TestTransactionsThatMeetAreRepeated, and single statements are not.
func TestTransactionsThatMeetAreRepeated(t *testing.T) {
	s := memory.New(memory.Options{})
	put(t, s)
	for op, c := range map[memory.Op]struct{ failures, calls int }{"Commit": {3, 4}, "Capture": {4, 4}, "Pay": {1, 1}, "Events": {1, 1}} {
		calls := 0
		p := s.Connect(memory.Faults{Around: func(_ context.Context, _ memory.Op, do func() error) error {
			if calls++; calls <= c.failures {
				return memory.SerializationFailure
			}
			return do()
		}})
		var err error
		switch op {
		case "Commit":
			_, err = p.Commit(t.Context(), []orders.Reservation{reservation(1)})
		case "Capture":
			_, err = p.Capture(t.Context(), reservation(1).ID, "reference")
		case "Pay":
			_, err = p.Pay(t.Context(), map[orders.ID]string{reservation(1).ID: "reference"})
		default:
			_, err = p.Events(t.Context(), 0, 10)
		}
		if calls != c.calls || (err == nil) != (calls > c.failures) {
			t.Errorf("%s: %d calls, %v", op, calls, err)
		}
	}
	want(t, statuses(t, s), []orders.Status{orders.StatusConfirmed, "", ""}, "statuses")
}

// TestAStatementThatArrivesLate is done after its process has given up.
func TestAStatementThatArrivesLate(t *testing.T) {
	s := memory.New(memory.Options{})
	put(t, s)
	var late []func() error
	p := s.Connect(memory.Faults{Around: func(_ context.Context, _ memory.Op, do func() error) error {
		late = append(late, do)
		return context.DeadlineExceeded
	}})
	_, err := p.Commit(t.Context(), []orders.Reservation{reservation(2)})
	if !errors.Is(err, orders.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	led, err := p.Lead(t.Context(), "spring", func(context.Context) error { return nil })
	if led || !errors.Is(err, orders.ErrUnavailable) {
		t.Error(led, err)
	}
	want(t, statuses(t, s), []orders.Status{"", "", ""}, "before")
	for _, do := range late {
		must(t, do())
	}
	want(t, statuses(t, s), []orders.Status{"", orders.StatusConfirmed, ""}, "after")
	led, err = s.Lead(t.Context(), "spring", func(context.Context) error { return nil })
	must(t, err)
	want(t, led, true, "a lock that comes late is not kept")
}

func TestAContextThatIsOver(t *testing.T) {
	s := memory.New(memory.Options{})
	put(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Commit(ctx, []orders.Reservation{reservation(1)})
	if !errors.Is(err, orders.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	want(t, statuses(t, s), []orders.Status{"", "", ""}, "statuses")
}

// TestLockedOrdersAreLeftOut as another transaction's are.
func TestLockedOrdersAreLeftOut(t *testing.T) {
	now := time.Now()
	s := memory.New(memory.Options{Now: func() time.Time { return now }})
	put(t, s)
	commit(t, s, 1, 2)
	p := s.Connect(memory.Faults{Locked: func(id orders.ID) bool { return id == reservation(1).ID }})
	ids := []orders.ID{reservation(1).ID, reservation(2).ID}
	paid, err := p.Pay(t.Context(), map[orders.ID]string{ids[0]: "a", ids[1]: "b"})
	must(t, err)
	want(t, paid, ids[1:], "paid")
	ended, err := p.Cancel(t.Context(), ids)
	must(t, err)
	want(t, len(ended), 0, "cancelled")
	now = now.Add(time.Minute)
	ended, err = p.Expire(t.Context(), 10)
	must(t, err)
	want(t, len(ended), 0, "expired while it is locked")
	ended, err = s.Expire(t.Context(), 10)
	must(t, err)
	want(t, len(ended), 1, "expired")
}

// TestLeadsEndWithTheirConnection, their process's or the server's.
func TestLeadsEndWithTheirConnection(t *testing.T) {
	for name, lose := range map[string]func(own, other *memory.Store){
		"own":     func(own, _ *memory.Store) { own.Disconnect() },
		"server":  func(_, other *memory.Store) { other.Restart() },
		"restore": func(_, other *memory.Store) { other.Restore(other.Copy()) },
		"other":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			own := memory.New(memory.Options{})
			other := own.Connect(memory.Faults{})
			led, err := own.Lead(t.Context(), "spring", func(ctx context.Context) error {
				if lose == nil {
					other.Disconnect()
					led, err := other.Lead(ctx, "spring", func(context.Context) error { return nil })
					want(t, led, false, "two leaders")
					return errors.Join(err, ctx.Err())
				}
				lose(own, other)
				if !errors.Is(context.Cause(ctx), memory.ErrConnectionLost) {
					t.Error("the context of the leader goes on")
				}
				led, err := other.Lead(t.Context(), "spring", func(ctx context.Context) error { return ctx.Err() })
				want(t, led, true, "the next leader")
				return err
			})
			want(t, led, true, "led")
			if errors.Is(err, orders.ErrUnavailable) != (lose != nil) {
				t.Error(err)
			}
		})
	}
}

func TestRestore(t *testing.T) {
	s := memory.New(memory.Options{})
	unused := s.Copy()
	put(t, s)
	must(t, s.Install(t.Context(), "shop", false))
	commit(t, s, 1)
	before := read(t, s)
	earlier := s.Copy()

	commit(t, s, 2, 3)
	must(t, s.SetSwitch(t.Context(), "spring", orders.SwitchOpen))
	must(t, s.SetRoom(t.Context(), "spring", "hat", "", "queue"))
	must(t, s.RaiseEpoch(t.Context(), 1, storage.Lead{Sale: "spring", Epoch: 2, Token: "leader"}))
	_, err := s.Cancel(t.Context(), []orders.ID{reservation(1).ID})
	must(t, err)
	seen, _, err := s.Newest(t.Context(), storage.LastEvent{})
	must(t, err)
	for range 2 { // a copy can be restored again
		s.Restore(earlier)
		want(t, read(t, s), before, "the database as it was")
		_, there, err := s.Newest(t.Context(), seen)
		must(t, err)
		want(t, there, false, "an event that is lost")
		want(t, s.Copy().State(), earlier.State(), "all rows")
		commit(t, s, 2)
	}
	if o := foreign(t, s); o != nil {
		t.Errorf("a database that went back in time: %v", o)
	}
	s.Restore(unused)
	in, err := s.Installation(t.Context())
	must(t, err)
	want(t, in, storage.Installation{Live: in.Live}, "from before the first use")

	clone := memory.New(memory.Options{})
	clone.Restore(earlier)
	if !errors.Is(foreign(t, clone), orders.ErrForeign) {
		t.Error("a clone is not foreign")
	}
	must(t, clone.Install(t.Context(), "shop", true))
	if err := foreign(t, clone); err != nil {
		t.Errorf("after it was adopted: %v", err)
	}
	want(t, statuses(t, clone), []orders.Status{orders.StatusConfirmed, "", ""}, "orders of the clone")
}

func foreign(t *testing.T, s *memory.Store) error {
	t.Helper()
	in, err := s.Installation(t.Context())
	must(t, err)
	o := shop.Ownership{Namespace: "shop", Database: in}
	return o.Err()
}

// read returns what a process sees of a database.
func read(t *testing.T, s *memory.Store) (all []any) {
	t.Helper()
	sales, err := s.Sales(t.Context(), []string{"spring"})
	must(t, err)
	list, err := s.Orders(t.Context(), storage.Filter{Sale: "spring", Limit: 100})
	must(t, err)
	events, err := s.Events(t.Context(), 0, 100)
	must(t, err)
	in, err := s.Installation(t.Context())
	must(t, err)
	key, err := s.IDKey(t.Context())
	must(t, err)
	return append(all, sales, list, events, in, key)
}

// TestTheServerChanges when it starts again.
func TestTheServerChanges(t *testing.T) {
	s := memory.New(memory.Options{})
	var servers []string
	beat := func() {
		list, err := s.Heartbeat(t.Context(), liveness.Self{Process: "p"})
		must(t, err)
		servers = append(servers, list.Server)
	}
	beat()
	beat()
	s.Restart()
	beat()
	s.Restore(s.Copy())
	beat()
	want(t, len(slices.Compact(servers)), 3, "servers")
}

// TestTheEndOfAHandOver removes the processes that are silent still, and the acknowledgements of the epoch.
func TestTheEndOfAHandOver(t *testing.T) {
	s := memory.New(memory.Options{})
	put(t, s)
	lead := storage.Lead{Sale: "spring", Epoch: 2, Token: "leader"}
	must(t, s.RaiseEpoch(t.Context(), 1, lead))
	beat := func(process string) {
		t.Helper()
		_, err := s.Heartbeat(t.Context(), liveness.Self{Process: process})
		must(t, err)
	}
	members := func(lead storage.Lead) map[string]bool {
		t.Helper()
		list, err := s.HandOver(t.Context(), lead)
		must(t, err)
		acknowledged := make(map[string]bool)
		for _, m := range list.Members {
			acknowledged[m.Process] = m.Acknowledged
		}
		return acknowledged
	}
	for _, process := range []string{"alive", "silent", "late"} {
		beat(process)
	}
	must(t, s.Acknowledge(t.Context(), "spring", 2, "alive", nil))
	must(t, s.Acknowledge(t.Context(), "spring", 3, "alive", nil))
	list, err := s.HandOver(t.Context(), lead)
	must(t, err)
	want(t, members(lead), map[string]bool{"alive": true, "silent": false, "late": false}, "before")
	beat("late")
	must(t, s.EndHandOver(t.Context(), lead, slices.DeleteFunc(list.Members, func(m liveness.Member) bool { return m.Process == "alive" })))
	want(t, members(lead), map[string]bool{"alive": false, "late": false}, "after")
	next := storage.Lead{Sale: "spring", Epoch: 3, Token: "next"}
	must(t, s.RaiseEpoch(t.Context(), 2, next))
	want(t, members(next), map[string]bool{"alive": true, "late": false}, "of a later epoch")
}

// TestSameSeedSameResults: nothing depends on the order of a map, the wall clock or another source of random numbers.
func TestSameSeedSameResults(t *testing.T) {
	once := func() (all []any) {
		now := time.UnixMilli(1_800_000_000_000)
		s := memory.New(memory.Options{
			Now:  func() time.Time { now = now.Add(time.Second); return now },
			Rand: rand.New(rand.NewPCG(1, 2)),
		})
		_, _, _, err := s.PutSale(t.Context(), orders.Sale{
			ID: "spring", StartsAt: now, EndsAt: now.Add(time.Hour), Hold: 15 * time.Second,
			Items: []orders.Item{{ID: "hat", Stock: 50, QuotaPerBuyer: 1, InFlightMax: 1}},
		})
		must(t, err)
		must(t, s.Install(t.Context(), "shop", false))
		references := make(map[orders.ID]string)
		for unit := range 20 {
			commit(t, s, unit+1)
			references[reservation(unit+1).ID] = fmt.Sprint(unit % 7)
		}
		paid, err := s.Pay(t.Context(), references)
		must(t, err)
		ended, err := s.Expire(t.Context(), 100)
		must(t, err)
		returns, err := s.Returns(t.Context(), "", 5)
		must(t, err)
		if len(paid) != 7 || len(ended) < 5 || len(returns) != 5 {
			t.Errorf("%d paid, %d expired, %d returns", len(paid), len(ended), len(returns))
		}
		return append(read(t, s), paid, ended, returns)
	}
	want(t, once(), once(), "the second time")
}
