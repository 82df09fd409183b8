package memory_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/waitingroom/internal/store"
	"github.com/tidegate/tidegate/waitingroom/memory"
)

// must is for any goroutine of a test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

const hall = "hall"

// faulty is a process whose Around a test sets.
type faulty struct {
	*memory.Store

	around func(op memory.Op, do func() error) error // nil: none
}

func connect(s *memory.Store) *faulty {
	f := &faulty{}
	f.Store = s.Connect(memory.Faults{Around: func(_ context.Context, op memory.Op, do func() error) error {
		if f.around != nil {
			return f.around(op, do)
		}
		return do()
	}})
	return f
}

// open returns a database with a room and some places.
func open(t *testing.T, subjects ...string) *memory.Store {
	t.Helper()
	s := memory.New(memory.Options{})
	must(t, s.InTx(t.Context(), func(tx store.Tx) error {
		r := &store.Room{Terms: store.Terms{Room: hall}, Saved: store.Saved{Secret: "s", Lanes: lanes("")}}
		_, err := tx.Insert(t.Context(), r)
		return err
	}))
	for _, subject := range subjects {
		must(t, join(t.Context(), s, subject))
	}
	return s
}

// join adds a place, and replaces the one that the subject has.
func join(ctx context.Context, s store.Store, subject string) error {
	return s.InTx(ctx, func(tx store.Tx) error { return joinIn(ctx, tx, subject) })
}

func joinIn(ctx context.Context, tx store.Tx, subject string) error {
	end, err := tx.LockEnd(ctx, hall)
	if err != nil {
		return err
	}
	end.Joined++
	end.Lanes[0].Joined++
	joiner := store.Joiner{Number: end.Joined, LaneNumber: end.Joined, Subject: subject, Quantity: 1}
	return tx.Add(ctx, hall, end, []store.Joiner{joiner}, []string{subject})
}

// numbers returns the numbers of the current places of subjects.
func numbers(t *testing.T, q store.Reader, subjects ...string) (all []int64) {
	t.Helper()
	found, err := q.BySubject(t.Context(), hall, subjects)
	must(t, err)
	for _, subject := range subjects {
		if p := found[subject]; p != nil {
			all = append(all, p.Number)
		}
	}
	return all
}

func want[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// call calls a method with zero arguments, and returns its error.
func call(ctx context.Context, of any, name string) error {
	m := reflect.ValueOf(of).MethodByName(name)
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < m.Type().NumIn(); i++ {
		arg := reflect.Zero(m.Type().In(i))
		if arg.Kind() == reflect.Pointer {
			arg = reflect.New(arg.Type().Elem())
		}
		if arg.Kind() == reflect.Slice { // some do nothing for none
			arg = reflect.Append(arg, reflect.Zero(arg.Type().Elem()))
		}
		args = append(args, arg)
	}
	do := m.Call
	if m.Type().IsVariadic() {
		do = m.CallSlice
	}
	results := do(args)
	err, _ := results[len(results)-1].Interface().(error)
	return err
}

// Around gets the name of each method, and the caller nothing but the error.
func TestEveryOperationCanFail(t *testing.T) {
	s := connect(open(t))
	var asked []memory.Op
	fail := func(op memory.Op, _ func() error) error {
		asked = append(asked, op)
		return memory.AdminShutdown
	}
	of := reflect.TypeFor[store.Tx]()
	for i := range of.NumMethod() {
		name := of.Method(i).Name
		s.around, asked = nil, nil
		err := s.InTx(t.Context(), func(tx store.Tx) error {
			s.around = fail
			err := call(t.Context(), tx, name)
			s.around = nil
			return err
		})
		if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, memory.AdminShutdown) {
			t.Errorf("%s: %v", name, err)
		}
		want(t, "asked", asked, []memory.Op{memory.Op(name)})
	}
	for _, name := range []memory.Op{"Begin", "Commit"} {
		s.around = func(op memory.Op, do func() error) error {
			if op == name {
				return memory.AdminShutdown
			}
			return do()
		}
		if err := s.InTx(t.Context(), func(store.Tx) error { return nil }); !errors.Is(err, memory.AdminShutdown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A standby refuses what writes or locks, and nothing else.
func TestStandby(t *testing.T) {
	reads := reflect.TypeFor[store.Reader]()
	all := reflect.TypeFor[store.Tx]()
	also := []string{"Now", "Live", "NextLive", "Unfinished", "Passes", "Count"}
	for i := range all.NumMethod() {
		name := all.Method(i).Name
		_, read := reads.MethodByName(name)
		if writes := memory.Op(name).Writes(); writes == (read || slices.Contains(also, name)) {
			t.Errorf("%s writes: %t", name, writes)
		}
	}
}

// What a transaction writes, others see when it is committed, and never if it is not.
func TestIsolation(t *testing.T) {
	s := open(t, "ann")
	undo := errors.New("undo")
	for _, end := range []error{undo, nil} {
		before := numbers(t, s, "ann", "bob")
		err := s.InTx(t.Context(), func(tx store.Tx) error {
			must(t, joinIn(t.Context(), tx, "ann"))
			must(t, joinIn(t.Context(), tx, "bob"))
			want(t, "within", numbers(t, tx, "ann", "bob"), []int64{2, 3})
			want(t, "outside", numbers(t, s, "ann", "bob"), before)
			return end
		})
		if !errors.Is(err, end) || errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
		if end != nil {
			want(t, "undone", numbers(t, s, "ann", "bob"), before)
		}
	}
	want(t, "committed", numbers(t, s.Connect(memory.Faults{}), "ann", "bob"), []int64{2, 3})
}

// A place that a join replaces meanwhile stays as it is, and one whose join is undone does not.
func TestWaitingForARow(t *testing.T) {
	for _, undo := range []error{nil, errors.New("undo")} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, "ann")
			must(t, s.InTx(t.Context(), func(tx store.Tx) error {
				return tx.GiveTurns(t.Context(), hall, []store.Turn{{Subject: "ann"}}, 1, 2)
			}))
			goOn := make(chan struct{})
			var joining sync.WaitGroup
			joining.Go(func() {
				if err := s.InTx(t.Context(), func(tx store.Tx) error {
					must(t, joinIn(t.Context(), tx, "ann"))
					<-goOn
					return undo
				}); !errors.Is(err, undo) {
					t.Error(err)
				}
			})
			synctest.Wait()
			admitting := make(chan bool, 1)
			joining.Go(func() {
				must(t, s.InTx(t.Context(), func(tx store.Tx) error {
					p, err := tx.ByNumber(t.Context(), hall, 1)
					must(t, err)
					admitted, err := tx.Admit(t.Context(), hall, p, 1, 1)
					admitting <- admitted
					return err
				}))
			})
			synctest.Wait()
			if len(admitting) > 0 {
				t.Error("Admit did not wait for the join")
			}
			must(t, s.InTx(t.Context(), func(tx store.Tx) error { return tx.Lapse(t.Context(), hall, 1, 3) })) // waits for none
			close(goOn)
			if admitted := <-admitting; admitted != (undo != nil) {
				t.Errorf("the join ended with %v, and the place was admitted: %t", undo, admitted)
			}
			joining.Wait()
		})
	}
}

// Who waits gets the lock in turn.
func TestLocksAreGivenInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		var order []int
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				must(t, s.InTx(t.Context(), func(tx store.Tx) error {
					_, err := tx.Lock(t.Context(), hall, 0)
					order = append(order, i)
					time.Sleep(time.Second)
					return err
				}))
			})
		}
		all.Wait()
		want(t, "order", order, []int{0, 1, 2, 3, 4})
	})
}

// Two that wait for each other: one is ended and repeated, and both commit.
func TestDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		lockRoom := func(tx store.Tx) error {
			_, err := tx.Lock(t.Context(), hall, 0)
			return err
		}
		lockEnd := func(tx store.Tx) error {
			_, err := tx.LockEnd(t.Context(), hall)
			return err
		}
		var all sync.WaitGroup
		runs := 0
		for _, steps := range [][2]func(store.Tx) error{{lockRoom, lockEnd}, {lockEnd, lockRoom}} {
			all.Go(func() {
				must(t, s.InTx(t.Context(), func(tx store.Tx) error {
					runs++
					must(t, steps[0](tx))
					time.Sleep(time.Second)
					return steps[1](tx)
				}))
			})
		}
		all.Wait()
		if runs != 3 {
			t.Errorf("%d runs", runs)
		}
	})
}

// A transaction that Postgres ends is repeated three times; other errors are the caller's at once.
func TestRepeats(t *testing.T) {
	for state, runs := range map[memory.SQLState]int{memory.SerializationFailure: 4, memory.DeadlockDetected: 4, memory.ReadOnly: 1} {
		for _, at := range []memory.Op{"Lock", "Commit"} {
			s, n := connect(open(t)), 0
			s.around = func(op memory.Op, do func() error) error {
				if op == at {
					n++
					return state
				}
				return do()
			}
			err := s.InTx(t.Context(), func(tx store.Tx) error {
				_, err := tx.Lock(t.Context(), hall, 0)
				return err
			})
			if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, state) || n != runs {
				t.Errorf("%v at %s: %v after %d runs", state, at, err, n)
			}
			s.around = nil
			must(t, join(t.Context(), s, "ann")) // no lock is left
		}
	}
}

// After the error of a statement nothing is committed, even if it is ignored.
func TestAFailedStatementEndsTheTransaction(t *testing.T) {
	s := connect(open(t))
	err := s.InTx(t.Context(), func(tx store.Tx) error {
		must(t, joinIn(t.Context(), tx, "ann"))
		s.around = func(memory.Op, func() error) error { return memory.AdminShutdown }
		_, _ = tx.Now(t.Context())
		s.around = nil
		if _, err := tx.Now(t.Context()); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the next statement: %v", err)
		}
		return nil
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
	want(t, "committed", numbers(t, s, "ann"), nil)
}

// What becomes of a commit without an answer.
func TestCommitsWithoutAnAnswer(t *testing.T) {
	var later func() error
	for what, tt := range map[string]struct {
		around func(do func() error) error
		then   func(t *testing.T, s *faulty)
		stored bool
	}{
		"it did not arrive": {around: func(func() error) error { return memory.ErrConnectionLost }},
		"its answer is lost": {
			around: func(do func() error) error { return errors.Join(do(), memory.ErrConnectionLost) }, stored: true,
		},
		"it is done later": {
			around: func(do func() error) error { later = do; return memory.ErrLater },
			then: func(t *testing.T, s *faulty) {
				within, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := join(within, s.Connect(memory.Faults{}), "bob"); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("who needs its lock: %v", err)
				}
				s.Disconnect()
				must(t, later())
			},
			stored: true,
		},
		"it is done later, but the server starts again": {
			around: func(do func() error) error { later = do; return memory.ErrLater },
			then: func(t *testing.T, s *faulty) {
				s.Restart()
				if err := later(); !errors.Is(err, memory.ErrConnectionLost) {
					t.Error(err)
				}
			},
		},
		"it is given up, and done nevertheless": {
			around: func(do func() error) error { later = do; return memory.ErrConnectionLost },
			then: func(t *testing.T, _ *faulty) {
				if err := later(); !errors.Is(err, memory.ErrConnectionLost) {
					t.Error(err)
				}
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := connect(open(t))
				s.around = func(op memory.Op, do func() error) error {
					if op == "Commit" {
						return tt.around(do)
					}
					return do()
				}
				if err := join(t.Context(), s, "ann"); !errors.Is(err, store.ErrUnavailable) {
					t.Error(err)
				}
				s.around = nil
				if tt.then != nil {
					tt.then(t, s)
				}
				if stored := len(numbers(t, s, "ann")) > 0; stored != tt.stored {
					t.Errorf("stored: %t", stored)
				}
				must(t, join(t.Context(), s, "ann"))
			})
		})
	}
}

// A process that loses its connections, or ends while it waits, keeps no lock.
func TestNoLockIsLeft(t *testing.T) {
	for what, end := range map[string]func(holder, waiter *memory.Store, cancel func()){
		"the holder is lost":  func(holder, _ *memory.Store, _ func()) { holder.Disconnect() },
		"the waiter is lost":  func(_, waiter *memory.Store, _ func()) { waiter.Disconnect() },
		"the waiter gives up": func(_, _ *memory.Store, cancel func()) { cancel() },
		"both are lost, as the lock is given": func(holder, waiter *memory.Store, _ func()) {
			holder.Disconnect()
			waiter.Disconnect()
		},
		"the server starts again": func(holder, _ *memory.Store, _ func()) { holder.Restart() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				holder := open(t)
				waiter := holder.Connect(memory.Faults{})
				goOn := make(chan struct{})
				var all sync.WaitGroup
				all.Go(func() {
					_ = holder.InTx(t.Context(), func(tx store.Tx) error {
						err := joinIn(t.Context(), tx, "ann")
						<-goOn
						return err
					})
				})
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				all.Go(func() { _ = join(ctx, waiter, "bob") })
				synctest.Wait()
				end(holder, waiter, cancel)
				synctest.Wait()
				close(goOn)
				all.Wait()
				cancel()
				must(t, join(t.Context(), waiter.Connect(memory.Faults{}), "cem"))
				rooms, err := holder.Rooms(t.Context())
				must(t, err)
				if n := len(numbers(t, holder, "ann", "bob", "cem")); int64(n) != rooms[0].Saved.Joined {
					t.Errorf("%d places, and %d joined", n, rooms[0].Saved.Joined)
				}
			})
		})
	}
}

// A copy stays as it was, and a database that is restored forgets what came after it.
func TestCopies(t *testing.T) {
	s := open(t, "ann")
	backup := s.Copy()
	for range 2 {
		must(t, join(t.Context(), s, "bob"))
		want(t, "later", numbers(t, s, "ann", "bob"), []int64{1, 2})
		s.Restore(backup)
		want(t, "restored", numbers(t, s, "ann", "bob"), []int64{1})
	}
	err := s.InTx(t.Context(), func(tx store.Tx) error {
		must(t, joinIn(t.Context(), tx, "bob"))
		s.Restore(backup)
		return nil
	})
	if !errors.Is(err, memory.ErrConnectionLost) || len(numbers(t, s, "bob")) > 0 {
		t.Errorf("a transaction of the database before: %v", err)
	}
}

// What a caller has been given, or gives, is not the row.
func TestRowsAreCopied(t *testing.T) {
	s := open(t, "ann")
	must(t, s.InTx(t.Context(), func(tx store.Tx) error {
		r, err := tx.Lock(t.Context(), hall, 0)
		must(t, err)
		must(t, tx.Write(t.Context(), r))
		r.Saved.Lanes[0].Served = 7
		p, err := tx.ByNumber(t.Context(), hall, 1)
		must(t, err)
		p.Quantity = 7
		end, err := tx.LockEnd(t.Context(), hall)
		must(t, err)
		end.Lanes[0].Joined = 7
		return nil
	}))
	rooms, err := s.Rooms(t.Context())
	must(t, err)
	rooms[0].Saved.Lanes[0].Served = 7
	rooms, err = s.Rooms(t.Context())
	must(t, err)
	p, err := s.ByNumber(t.Context(), hall, 1)
	must(t, err)
	if l := rooms[0].Saved.Lanes[0]; l.Served != 0 || l.Tail.Joined != 1 || p.Quantity != 1 {
		t.Errorf("%+v, %+v", l, p)
	}
}

// Places that are deleted while a transaction waits for one of them stay deleted, and take no others with them.
func TestDeletedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, "ann", "bob", "cem")
		var all sync.WaitGroup
		all.Go(func() {
			must(t, s.InTx(t.Context(), func(tx store.Tx) error {
				more, _, err := tx.Shrink(t.Context(), hall, 2, lanes("")[0])
				if !more {
					t.Error("nothing was deleted")
				}
				time.Sleep(time.Second)
				return err
			}))
		})
		synctest.Wait()
		must(t, s.InTx(t.Context(), func(tx store.Tx) error {
			return tx.Bar(t.Context(), hall, []string{"ann", "bob", "cem"}, "why", "by")
		}))
		all.Wait()
		want(t, "left", numbers(t, s, "ann", "bob", "cem"), []int64{3})
		found, err := s.ByNumber(t.Context(), hall, 3)
		must(t, err)
		if found == nil || found.Barred != "why" {
			t.Errorf("%+v", found)
		}
	})
}
