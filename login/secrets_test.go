package login_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

// of returns a throttle with the given secrets in a namespace.
func of(t testing.TB, store login.Store, namespace, secret, previous string) *login.Throttle {
	t.Helper()
	th, err := login.New(store, rules.Default, login.Options{
		Secret: []byte(secret), PreviousSecret: []byte(previous), Namespace: namespace, Timeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return th
}

const older, newer, foreign = "the secret before the change....", "the secret after the change.....", "a secret of somebody else......."

// known reports whether a throttle accepts a device token of alice, whose name is under attack.
func known(t testing.TB, th *login.Throttle, token string) bool {
	t.Helper()
	a := attempt("alice", "203.0.113.1")
	a.Device = token
	d, err := th.Check(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return d.Action == login.Allow
}

func TestDeviceTokenOutlivesItsSecret(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		namespace := uuid.NewString()
		before, while := of(t, store, namespace, older, ""), of(t, store, namespace, newer, older)
		after, mistaken := of(t, store, namespace, newer, ""), of(t, store, namespace, newer, foreign)
		token := device(t, before, "alice")
		attacked(t, while, "alice") // counted for all that have the new one
		if !known(t, while, token) || known(t, after, token) || known(t, mistaken, token) {
			t.Errorf("a token of the previous secret: %v, %v, %v", known(t, while, token), known(t, after, token), known(t, mistaken, token))
		}
		if mallory := device(t, before, "mallory"); known(t, while, mallory) {
			t.Error("a token of another name is taken")
		}

		a := attempt("alice", "203.0.113.1")
		a.Device = token
		_, s := try(t, while, a, login.Success)
		if s.Device == "" || s.Device == token {
			t.Fatalf("it is not renewed: %+v", s)
		}
		a.Device = s.Device
		if _, again := try(t, while, a, login.Success); !known(t, after, s.Device) || again.Device != "" {
			t.Errorf("the new one is of no use, or replaced at once: %+v", again)
		}
	})
}

// One that was revoked must not be worth five guesses more under each secret.
func TestRevocationOutlivesTheSecret(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		namespace := uuid.NewString()
		before, while := of(t, store, namespace, older, ""), of(t, store, namespace, newer, older)
		stolen := attempt("alice", "192.0.2.66")
		stolen.Device = device(t, before, "alice")
		for i, th := range []*login.Throttle{before, before, while, before, while} {
			if d, _ := try(t, th, stolen, login.Failure); d.Action != login.Allow {
				t.Fatalf("guess %d: %+v", i+1, d)
			}
			c.advance(time.Minute)
		}
		attacked(t, before, "alice")
		attacked(t, while, "alice")
		if known(t, before, stolen.Device) || known(t, while, stolen.Device) {
			t.Error("a revoked token is taken")
		}
	})
}

func TestAttemptIsSettledWhereItWasCounted(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		namespace := uuid.NewString()
		before, while := of(t, store, namespace, older, ""), of(t, store, namespace, newer, older)
		reserve := func(name, ip string) string {
			t.Helper()
			d, err := before.Reserve(t.Context(), attempt(name, ip))
			if err != nil || d.ID == "" {
				t.Fatal(d, err)
			}
			return d.ID
		}
		failed, passed := reserve("alice", "203.0.113.1"), reserve("bob", "203.0.113.2")
		for _, th := range []*login.Throttle{of(t, store, namespace, newer, ""), of(t, store, namespace, newer, foreign)} {
			if _, err := th.Settle(t.Context(), failed, login.Success); !errors.Is(err, login.ErrUnknownAttempt) {
				t.Errorf("without the secret: %v", err)
			}
		}
		for range 2 { // sent again
			if _, err := while.Settle(t.Context(), failed, login.Failure); err != nil {
				t.Fatal(err)
			}
			if s, err := while.Settle(t.Context(), passed, login.Success); err != nil || s.Device != "" {
				t.Fatalf("%+v, %v: nothing is signed with the previous secret", s, err)
			}
		}
		if _, err := before.Settle(t.Context(), failed, login.Success); !errors.Is(err, login.ErrSettled) {
			t.Errorf("another outcome at another process: %v", err)
		}
		standing(t, before, "alice", "203.0.113.1", 1, 0)
		standing(t, before, "bob", "203.0.113.2", 0, 0)
		standing(t, while, "alice", "203.0.113.1", 0, 0)
	})
}

// Processes that still sign with the one secret and those that sign with the other already settle each other's attempts, and count a token of
// either in one place.
func TestProcessesOnBothSidesOfTheChange(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		namespace := uuid.NewString()
		ahead, first := of(t, store, namespace, older, newer), of(t, store, namespace, newer, older)
		a := attempt("alice", "203.0.113.1")
		a.Device = device(t, ahead, "alice")
		for i := range 10 { // five that are not settled would be as many as may be under way
			d, err := first.Reserve(t.Context(), a)
			if err != nil || d.Action != login.Allow {
				t.Fatalf("attempt %d: %+v, %v", i+1, d, err)
			}
			if _, err := ahead.Settle(t.Context(), d.ID, login.Error); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestPreviousSecretIsLongEnough(t *testing.T) {
	if _, err := login.New(login.NewMemoryStore(), rules.Default, login.Options{Secret: []byte(newer), PreviousSecret: []byte("short")}); err == nil {
		t.Error("a short one was taken")
	}
}
