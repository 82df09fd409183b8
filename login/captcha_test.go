package login_test

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/login"
)

// everything verifies whatever is right, each time.
type everything struct{}

func (everything) Verify(_ context.Context, token string, _ captcha.Binding, _ netip.Addr) error {
	if token == "right" {
		return nil
	}
	return &captcha.RefusedError{Cause: captcha.CauseWrong}
}

// proofOfWork is the real provider, over a Redis, with easy challenges.
func proofOfWork(t testing.TB, lifetime time.Duration) *captcha.ProofOfWork {
	opts, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { rdb.Close() })
	used, err := captcha.NewRedisUsed(rdb, uuid.NewString())
	if err != nil {
		t.Fatal(err)
	}
	p, err := captcha.NewProofOfWork(captcha.ProofOfWorkOptions{Secret: secret, Used: used, MaxNumber: 100, Lifetime: lifetime})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// solve does what the login page does with a challenge.
func solve(t testing.TB, p captcha.Provider, b captcha.Binding) string {
	t.Helper()
	made, err := p.Challenge(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return testenv.Solve(t, made.JSON)
}

// challenged returns the challenge that an attempt by this name gets.
func challenged(t testing.TB, th *login.Throttle, a login.Attempt) captcha.Binding {
	t.Helper()
	a.Captcha = ""
	d, err := th.Check(t.Context(), a)
	if err != nil || d.Action != login.Challenge {
		t.Fatalf("%+v, %v", d, err)
	}
	return d.Challenge
}

func TestSolutionOpensOneAttemptOfItsOwn(t *testing.T) {
	proof := proofOfWork(t, 0)
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{Captcha: proof})
		for _, name := range []string{"alice", "bob"} {
			attacked(t, th, name)
		}
		alice := attempt("alice", "203.0.113.1")
		binding := challenged(t, th, alice)
		used := solve(t, proof, binding)
		with := func(a login.Attempt, token string) login.Attempt {
			a.Captcha = token
			return a
		}
		if d, err := th.Reserve(t.Context(), with(alice, used)); err != nil || d.Action != login.Allow || d.ID == "" {
			t.Fatalf("solved: %+v, %v", d, err)
		}
		otp := alice
		otp.Factor = "otp"
		for range 3 {
			if _, err := th.Report(t.Context(), otp); err != nil {
				t.Fatal(err)
			}
		}
		other := binding
		other.Purpose = "order"
		for what, a := range map[string]login.Attempt{
			"used":                   with(alice, used),
			"empty (CVE-2023-45292)": with(alice, "e30="),
			"no solution":            with(alice, "right"),
			"of another purpose":     with(alice, solve(t, proof, other)),
			"for another name":       with(attempt("bob", "203.0.113.1"), solve(t, proof, binding)),
			"for another address":    with(attempt("alice", "203.0.113.2"), solve(t, proof, binding)),
			"for another factor":     with(otp, solve(t, proof, binding)),
			"of another secret":      with(alice, solve(t, strange(t), binding)),
		} {
			d, err := th.Reserve(t.Context(), a)
			if err != nil || d.Action != login.Challenge || d.Reason != login.ReasonCaptchaRefused || d.ID != "" || d.Challenge.Subject == "" {
				t.Errorf("a solution that is %s: %+v, %v", what, d, err)
			}
		}
	})
}

func strange(t testing.TB) *captcha.ProofOfWork {
	p, err := captcha.NewProofOfWork(captcha.ProofOfWorkOptions{Secret: []byte("another secret of the tests"), Used: nowhere{}, MaxNumber: 100})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// nowhere is an unavailable captcha.Used.
type nowhere struct{}

func (nowhere) First(context.Context, string, time.Duration) (bool, error) {
	return false, errors.New("away")
}

func TestOfManyUsesOfASolutionOneOpens(t *testing.T) {
	proof := proofOfWork(t, 0)
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{Captcha: proof})
		attacked(t, th, "alice")
		a := attempt("alice", "203.0.113.1")
		a.Captcha = solve(t, proof, challenged(t, th, a))
		var allowed atomic.Int32
		atOnce(16, func(int) {
			d, err := th.Reserve(t.Context(), a)
			switch {
			case err != nil:
				t.Error(err)
			case d.Action == login.Allow:
				allowed.Add(1)
			case d.Reason != login.ReasonCaptchaRefused:
				t.Errorf("%+v", d)
			}
		})
		if allowed.Load() != 1 {
			t.Errorf("one solution opened %d attempts", allowed.Load())
		}
	})
}

// A request that is sent again has the answer that it had, though its solution has been used.
func TestResendWithASolution(t *testing.T) {
	proof := proofOfWork(t, 0)
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{Captcha: proof})
		attacked(t, th, "alice")
		a := attempt("alice", "203.0.113.1")
		a.ID = "1"
		if d, err := th.Reserve(t.Context(), a); err != nil || d.Action != login.Challenge {
			t.Fatalf("%+v, %v", d, err)
		}
		a.Captcha = solve(t, proof, challenged(t, th, attempt("alice", "203.0.113.1")))
		first, err := th.Reserve(t.Context(), a) // with the same id: it is another request, since it has a solution
		if err != nil || first.Action != login.Allow || first.ID == "" {
			t.Fatalf("%+v, %v", first, err)
		}
		for range 3 {
			if again, err := th.Reserve(t.Context(), a); err != nil || again != first {
				t.Errorf("again: %+v, %v, before %+v", again, err, first)
			}
		}
		other := a
		other.ID = "2"
		if d, err := th.Reserve(t.Context(), other); err != nil || d.Reason != login.ReasonCaptchaRefused {
			t.Errorf("another request: %+v, %v", d, err)
		}
	})
}

// late is a verifier to whom the same request came twice: the other one has used the solution and been let in.
type late struct{ first func() }

func (l late) Verify(context.Context, string, captcha.Binding, netip.Addr) error {
	l.first()
	return &captcha.RefusedError{Cause: captcha.CauseUsed}
}

func TestResendThatRunsBesideTheFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		namespace := uuid.NewString()
		th := throttle(t, store, rules.Default, login.Options{Namespace: namespace, Captcha: everything{}})
		attacked(t, th, "alice")
		a := attempt("alice", "203.0.113.1")
		a.ID, a.Captcha = "1", "right"
		var first login.Decision
		second := throttle(t, store, rules.Default, login.Options{Namespace: namespace, Captcha: late{first: func() {
			var err error
			if first, err = th.Reserve(t.Context(), a); err != nil {
				t.Error(err)
			}
		}}})
		if d, err := second.Reserve(t.Context(), a); err != nil || d != first || d.Action != login.Allow {
			t.Errorf("%+v, %v, the first got %+v", d, err, first)
		}
	})
}

// A solution that cannot be verified is not accepted, and no solution is used up in vain.
func TestSolutionIsKeptWhereItOpensNothing(t *testing.T) {
	proof := proofOfWork(t, 0)
	eachStore(t, func(t *testing.T, store login.Store, c *clock) {
		namespace := uuid.NewString()
		rules := rulesOf(t, "  - {count: name, limit: 3, window: 10m, then: challenge, for: 10m}\n  - {count: ip, limit: 2, window: 10m, then: delay, for: 5s}")
		th := throttle(t, store, rules, login.Options{Namespace: namespace, Captcha: proof})
		attacked(t, th, "alice")
		a := attempt("alice", "203.0.113.1")
		a.Captcha = solve(t, proof, challenged(t, th, a))
		away := throttle(t, store, rules, login.Options{Namespace: namespace, Captcha: strange(t)})
		mine := a
		mine.Captcha = solve(t, strange(t), challenged(t, th, a))
		if d, err := away.Reserve(t.Context(), mine); !errors.Is(err, login.ErrUnavailable) || d != (login.Decision{}) {
			t.Errorf("nobody can tell whether it was used: %+v, %v", d, err)
		}
		for what, ask := range map[string]func(context.Context, login.Attempt) (login.Decision, error){"check": th.Check, "report": th.Report} {
			if d, err := ask(t.Context(), a); err != nil || d.Action != login.Challenge {
				t.Errorf("%s looks at no solution: %+v, %v", what, d, err)
			}
		}
		for range 2 {
			try(t, th, attempt("bob", "203.0.113.1"), login.Failure)
		}
		if d, err := th.Reserve(t.Context(), a); err != nil || d.Action != login.Delay {
			t.Errorf("who has to wait: %+v, %v", d, err)
		}
		c.advance(5 * time.Second)
		if d, err := th.Reserve(t.Context(), a); err != nil || d.Action != login.Allow {
			t.Errorf("after the wait: %+v, %v", d, err)
		}
	})
}

// The more has failed, the more work is asked for.
func TestWorkGrowsWithFailures(t *testing.T) {
	eachStore(t, func(t *testing.T, store login.Store, _ *clock) {
		th := throttle(t, store, rules.Default, login.Options{Captcha: everything{}})
		last, failed := -1, 0
		for i := range 400 {
			a := attempt("alice", netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String())
			d, err := th.Check(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if d.Action == login.Challenge {
				if d.Challenge.Risk < last || d.Challenge.Risk > captcha.MaxRisk {
					t.Fatalf("after %d failures: risk %d, before %d", failed, d.Challenge.Risk, last)
				}
				last = d.Challenge.Risk
			}
			a.Captcha = "right"
			if d, _ := try(t, th, a, login.Failure); d.Action == login.Allow {
				failed++
			}
		}
		if last != captcha.MaxRisk {
			t.Errorf("after %d failures the risk is %d", failed, last)
		}
	})
}

func TestExpiredSolutionOpensNothing(t *testing.T) {
	th := throttle(t, memoryStore(newClock()), rules.Default, login.Options{Captcha: expired{}})
	attacked(t, th, "alice")
	a := attempt("alice", "203.0.113.1")
	a.Captcha = "old"
	if d, err := th.Reserve(t.Context(), a); err != nil || d.Action != login.Challenge || d.Reason != login.ReasonCaptchaRefused {
		t.Errorf("%+v, %v", d, err)
	}
}

type expired struct{}

func (expired) Verify(context.Context, string, captcha.Binding, netip.Addr) error {
	return &captcha.RefusedError{Cause: captcha.CauseExpired}
}
