package login_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/login"
)

// attacked returns a name at whom strangers have guessed until it is challenged.
func attacked(t testing.TB, th *login.Throttle, name string) {
	t.Helper()
	for i := range 3 {
		if d, _ := try(t, th, attempt(name, fmt.Sprint("192.0.2.", i)), login.Failure); d.Action != login.Allow {
			t.Fatalf("%+v", d)
		}
	}
}

func TestADeviceTokenIsCountedByItself(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		namespace := uuid.NewString()
		th := throttle(t, store, rules.Default, login.Options{Namespace: namespace})
		mine, foreign := device(t, th, "alice"), device(t, th, "mallory")
		shortLived := throttle(t, store, rules.Default, login.Options{Namespace: namespace, DeviceLifetime: time.Minute})
		c.advance(-2 * time.Minute)
		expired := device(t, shortLived, "alice")
		c.advance(2 * time.Minute)
		attacked(t, th, "alice")
		other, err := login.New(store, rules.Default, login.Options{Secret: []byte("another secret of 32 bytes......"), Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		tokens := map[string]string{
			"none": "", "of another name": foreign, "of another secret": device(t, other, "alice"), "expired": expired, "truncated": mine[:len(mine)-1],
			"longer": mine + "A", "twice": mine + mine, "no token": "🦊", "huge": string(make([]byte, 1<<20)),
		}
		// An attempt's id is signed with the same key.
		d, _ := try(t, th, attempt("bob", "192.0.2.77"), login.Failure)
		tokens["an attempt"] = d.ID
		for i := range len(mine) {
			b := []byte(mine)
			b[i] ^= 1
			tokens[fmt.Sprintf("with character %d changed", i)] = string(b)
		}
		a := attempt("alice", "203.0.113.1")
		for what, token := range tokens {
			a.Device = token
			if d, err := th.Check(t.Context(), a); err != nil || d.Action != login.Challenge {
				t.Errorf("a token %s: %+v, %v", what, d, err)
			}
		}
		a.Device = mine
		if d, err := th.Check(t.Context(), a); err != nil || d.Action != login.Allow {
			t.Errorf("the right token: %+v, %v", d, err)
		}
	})
}

// A stolen token is worth five guesses, whatever its owner does afterwards, and for as long as it lives.
func TestRevokedDeviceStaysRevoked(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}, DeviceLifetime: 365 * 24 * time.Hour})
		stolen := attempt("alice", "192.0.2.66")
		stolen.Device = device(t, th, "alice")
		for i := range 5 {
			if d, _ := try(t, th, stolen, login.Failure); d.Action != login.Allow {
				t.Fatalf("guess %d: %+v", i+1, d)
			}
			c.advance(time.Minute)
		}
		revoked := func(when string) {
			t.Helper()
			attacked(t, th, "alice")
			if d, err := th.Check(t.Context(), stolen); err != nil || d.Action != login.Challenge {
				t.Fatalf("%s: %+v, %v", when, d, err)
			}
			c.advance(time.Hour)
		}
		revoked("at once")
		owner := attempt("alice", "203.0.113.1")
		owner.Captcha = "right"
		if d, s := try(t, th, owner, login.Success); d.Action != login.Allow || s.Device == "" || s.Device == stolen.Device {
			t.Fatalf("%+v, %+v", d, s)
		}
		revoked("after the owner's success elsewhere")
		withIt := owner
		withIt.Device = stolen.Device
		if d, s := try(t, th, withIt, login.Success); d.Action != login.Allow || s.Device == "" || s.Device == stolen.Device {
			t.Fatalf("its holder gets a new one: %+v, %+v", d, s)
		}
		revoked("after a success with it")
		for _, days := range []int{6, 25, 60, 200} {
			c.advance(time.Duration(days) * 24 * time.Hour)
			revoked(fmt.Sprint(days, " days later"))
		}
	})
}

func TestSuccessEndsTheDevicesStreak(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		a := attempt("alice", "203.0.113.1")
		a.Device = device(t, th, "alice")
		for i := range 20 {
			result := login.Failure
			if i%5 == 4 {
				result = login.Success
			}
			if d, s := try(t, th, a, result); d.Action != login.Allow || s.Device != "" {
				t.Fatalf("attempt %d: %+v, %+v", i+1, d, s)
			}
			c.advance(2 * time.Minute)
		}
	})
}

func TestHolderOfATokenNoticesNoAttack(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}})
		owner := attempt("alice", "203.0.113.1")
		owner.Device = device(t, th, "alice")
		for i := range 1000 {
			guess := attempt("alice", fmt.Sprintf("10.0.%d.%d", i/250, i%250))
			guess.Captcha = "right"
			try(t, th, guess, login.Failure)
			if i%100 != 99 {
				continue
			}
			for _, result := range []login.Result{login.Failure, login.Success} { // a typing error, too
				if d, _ := try(t, th, owner, result); d.Action != login.Allow {
					t.Fatalf("after %d guesses: %+v", i+1, d)
				}
			}
			c.advance(time.Second)
		}
		if d, err := th.Check(t.Context(), attempt("alice", "203.0.113.2")); err != nil || d.Action != login.Challenge {
			t.Errorf("without the token: %+v, %v", d, err)
		}
	})
}

// What the holder mistypes is the token's own, and an address's: the name is not challenged for it, nor the other way round.
func TestFailuresOfADeviceAreItsOwn(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{})
		a := attempt("alice", "203.0.113.1")
		a.Device = device(t, th, "alice")
		for range 4 {
			try(t, th, a, login.Failure)
		}
		all, err := th.RuleStates(t.Context(), login.Subject{Name: "alice", IP: a.IP})
		if err != nil || len(all) < 6 {
			t.Fatal(all, err)
		}
		for _, s := range all {
			want := map[login.Count]int{login.CountIP: 4, login.CountNamesPerIP: 1}[s.Count]
			if s.Failed != want || s.InFlight != 0 {
				t.Errorf("%s: %d failed and %d under way, want %d", s.Rule, s.Failed, s.InFlight, want)
			}
		}
	})
}

func TestTokenIsRenewedInTheSecondHalfOfItsLife(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		namespace := uuid.NewString()
		th := throttle(t, store, rules.Default, login.Options{Namespace: namespace})
		a := attempt("alice", "203.0.113.1")
		a.Device = device(t, th, "alice")
		if _, s := try(t, th, a, login.Success); s.Device != "" {
			t.Error("a young token was replaced")
		}
		c.advance(-46 * 24 * time.Hour)
		a.Device = device(t, th, "alice")
		c.advance(46 * 24 * time.Hour)
		if _, s := try(t, th, a, login.Success); s.Device == "" || s.Device == a.Device {
			t.Error("an old token was not replaced")
		}
	})
}
