package login_test

import (
	"testing"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

// TestAResetLetsTheOwnerIn: whoever has reset the password gets in with the new one, from where it was mistyped until that was denied. It
// gives no other client a try.
func TestAResetLetsTheOwnerIn(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		owner, stranger := attempt("alice", "192.0.2.1"), attempt("alice", "192.0.2.2")
		for _, a := range []login.Attempt{owner, stranger} {
			for range 10 {
				if _, err := th.Report(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
		}
		reset := attempt("alice", "192.0.2.1")
		reset.Factor = login.Reset
		if try(t, th, reset, login.Failure); check(t, th, owner) != login.Deny {
			t.Fatal("a failed reset lets the password in")
		}
		d, s := try(t, th, reset, login.Success)
		if d.Action != login.Allow || s.Device == "" {
			t.Fatalf("%+v %+v", d, s)
		}
		if again, err := th.Settle(t.Context(), d.ID, login.Success); err != nil || again != s {
			t.Errorf("repeated: %+v, %v", again, err)
		}
		if got := check(t, th, owner); got != login.Challenge { // the name is under attack, and this may be anybody in the same office
			t.Errorf("without the token: %s", got)
		}
		if got := check(t, th, stranger); got != login.Deny {
			t.Errorf("another address: %s", got)
		}
		for _, ip := range []string{"192.0.2.1", "192.0.2.2", "203.0.113.9"} {
			a := attempt("alice", ip)
			a.Device = s.Device
			if got, _ := try(t, th, a, login.Success); got.Action != login.Allow {
				t.Errorf("with the token at %s: %+v", ip, got)
			}
		}
		if _, err := th.Settle(t.Context(), d.ID, login.Failure); err == nil {
			t.Error("another result was taken")
		}
	})
}

// check returns what would be decided about an attempt.
func check(t testing.TB, th *login.Throttle, a login.Attempt) login.Action {
	t.Helper()
	d, err := th.Check(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return d.Action
}
