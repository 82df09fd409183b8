package login_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

func TestNobodyInventsAnAttempt(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		other, err := login.New(store, rules.Default, login.Options{Secret: []byte("another secret of 32 bytes......"), Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1"))
		if err != nil || d.ID == "" {
			t.Fatal(d, err)
		}
		foreign, err := other.Reserve(t.Context(), attempt("alice", "192.0.2.1"))
		if err != nil || foreign.ID == "" {
			t.Fatal(foreign, err)
		}
		ids := []string{"", "x", foreign.ID, d.ID[:len(d.ID)-1], d.ID + "A", d.ID + d.ID, strings.Repeat("A", 1<<20), device(t, th, "alice"), "\xff\x00"}
		for i := range len(d.ID) {
			for _, bit := range []byte{1, 2, 4, 8, 16, 32} {
				b := []byte(d.ID)
				b[i] ^= bit
				ids = append(ids, string(b))
			}
		}
		for _, id := range ids {
			if _, err := th.Settle(t.Context(), id, login.Success); !errors.Is(err, login.ErrUnknownAttempt) {
				t.Fatalf("%.200q: %v", id, err)
			}
		}
		if _, err := th.Settle(t.Context(), d.ID, "won"); !errors.Is(err, login.ErrInvalid) {
			t.Errorf("another result: %v", err)
		}
		if _, err := th.Settle(t.Context(), d.ID, login.Success); err != nil {
			t.Error(err)
		}
	})
}

func TestOneOfManyOutcomesWins(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		throttles := twoProcesses(t, store, c, rules.Default)
		results := []login.Result{login.Success, login.Failure, login.Error}
		for i := range 20 {
			name := uuid.NewString()
			d, err := throttles[0].Reserve(t.Context(), attempt(name, fmt.Sprintf("192.0.2.%d", i+1))) // an address may fail with ten names only
			if err != nil || d.Action != login.Allow {
				t.Fatal(d, err)
			}
			var won, lost [3]atomic.Int32
			var devices [9]string
			atOnce(9, func(i int) {
				s, err := throttles[i%2].Settle(t.Context(), d.ID, results[i%3])
				switch {
				case err == nil:
					won[i%3].Add(1)
				case errors.Is(err, login.ErrSettled):
					lost[i%3].Add(1)
				default:
					t.Error(err)
				}
				devices[i] = s.Device
			})
			var winners []int
			for i := range results {
				switch n := won[i].Load(); {
				case n == 3:
					winners = append(winners, i)
				case n != 0:
					t.Errorf("%d of 3 said %s", n, results[i])
				}
			}
			if len(winners) != 1 {
				t.Fatalf("winners: %v", winners)
			}
			tokens := slices.Compact(slices.Sorted(slices.Values(devices[:])))
			if success := winners[0] == 0; success != (len(tokens) == 2) { // the losers' empty one, and one for all the winners
				t.Errorf("%s won and gave out %q", results[winners[0]], tokens)
			}
			failed := 0
			if winners[0] == 1 {
				failed = 1
			}
			all, err := throttles[0].RuleStates(t.Context(), login.Subject{Name: name})
			if err != nil || all[0].Failed != failed || all[0].InFlight != 0 {
				t.Errorf("%s won: %+v, %v", results[winners[0]], all, err)
			}
		}
	})
}

// A settlement counts even if the caller disconnects before the answer.
func TestOutcomeOfACallerWhoHangsUp(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		d, err := th.Reserve(t.Context(), attempt("alice", "192.0.2.1"))
		if err != nil || d.ID == "" {
			t.Fatal(d, err)
		}
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		if s, err := th.Settle(gone, d.ID, login.Success); err != nil || s.Device == "" {
			t.Errorf("%+v, %v", s, err)
		}
		standing(t, th, "alice", "192.0.2.1", 0, 0)
	})
}

func TestResendIsCountedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		throttles := twoProcesses(t, store, c, rules.Default)
		a := attempt("alice", "192.0.2.1")
		a.ID = "1"
		var ids [16]string
		atOnce(len(ids), func(i int) {
			d, err := throttles[i%2].Reserve(t.Context(), a)
			if err != nil || d.Action != login.Allow {
				t.Errorf("%+v, %v", d, err)
			}
			ids[i] = d.ID
		})
		if n := slices.Compact(ids[:]); len(n) != 1 || n[0] == "" {
			t.Fatalf("%d ids: %q", len(n), n)
		}
		standing(t, throttles[0], "alice", "192.0.2.1", 0, 1)
		if _, err := throttles[0].Settle(t.Context(), ids[0], login.Failure); err != nil {
			t.Fatal(err)
		}
		a.ID = "2"
		for range 5 {
			if d, err := throttles[0].Report(t.Context(), a); err != nil || d.Action != login.Allow {
				t.Fatal(d, err)
			}
		}
		failed := func(want int) {
			t.Helper()
			all, err := throttles[0].RuleStates(t.Context(), login.Subject{Name: "alice"})
			if err != nil || all[1].Failed != want {
				t.Errorf("%+v, %v, want %d failures", all, err, want)
			}
		}
		failed(2)
		if _, ok := store.(*login.RedisStore); ok {
			return // which drops a record after a minute of its own clock
		}
		c.advance(61 * time.Second)
		if d, err := throttles[0].Report(t.Context(), a); err != nil || d.Action != login.Allow {
			t.Fatal(d, err)
		}
		failed(3)
	})
}

// The id of one attempt must not be good for another one.
func TestRequestIDBelongsToItsAttempt(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}})
		base := attempt("alice", "192.0.2.1")
		base.ID = "1"
		seen := map[string]string{}
		for what, change := range map[string]func(*login.Attempt){
			"as it was":       func(*login.Attempt) {},
			"another name":    func(a *login.Attempt) { a.Name = "bob" },
			"another address": func(a *login.Attempt) { a.IP = attempt("", "192.0.2.2").IP },
			"another factor":  func(a *login.Attempt) { a.Factor = "otp" },
			"another id":      func(a *login.Attempt) { a.ID = "2" },
		} {
			a := base
			change(&a)
			d, err := th.Reserve(t.Context(), a)
			if err != nil || d.Action != login.Allow {
				t.Fatalf("%s: %+v, %v", what, d, err)
			}
			if other, ok := seen[d.ID]; ok {
				t.Errorf("%s and %s are one attempt", what, other)
			}
			seen[d.ID] = what
		}
		// Each of them was counted: none passed with the answer to another.
		for subject, want := range map[login.Subject]int{{Name: "alice"}: 3, {Name: "bob"}: 1, {Name: "alice", Factor: "otp"}: 1} {
			if all, err := th.RuleStates(t.Context(), subject); err != nil || all[0].InFlight != want {
				t.Errorf("%+v: %+v, %v, want %d under way", subject, all, err, want)
			}
		}
	})
}

func TestAttemptsAreChecked(t *testing.T) {
	th := throttle(t, memoryStore(newClock()), rules.Default, login.Options{})
	for what, change := range map[string]func(*login.Attempt){
		"no name":            func(a *login.Attempt) { a.Name = "" },
		"only spaces":        func(a *login.Attempt) { a.Name = " \u3000\u200b" },
		"a long name":        func(a *login.Attempt) { a.Name = strings.Repeat("a", 257) },
		"bytes":              func(a *login.Attempt) { a.Name = "\xff" },
		"a NUL":              func(a *login.Attempt) { a.Name = "al\x00ice" },
		"a line":             func(a *login.Attempt) { a.Name = "alice\n" },
		"no address":         func(a *login.Attempt) { a.IP = login.Attempt{}.IP },
		"a factor of spaces": func(a *login.Attempt) { a.Factor = "o t p" },
		"a long factor":      func(a *login.Attempt) { a.Factor = strings.Repeat("a", 33) },
		"a long id":          func(a *login.Attempt) { a.ID = strings.Repeat("a", 256) },
	} {
		a := attempt("alice", "192.0.2.1")
		change(&a)
		for _, ask := range []func(*login.Throttle, context.Context, login.Attempt) (login.Decision, error){
			(*login.Throttle).Reserve, (*login.Throttle).Check, (*login.Throttle).Report,
		} {
			if d, err := ask(th, t.Context(), a); !errors.Is(err, login.ErrInvalid) || fmt.Sprint(d) != fmt.Sprint(login.Decision{}) {
				t.Errorf("%s: %+v, %v", what, d, err)
			}
		}
	}
}
