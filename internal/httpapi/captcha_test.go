package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/admission"
	"github.com/tidegate/tidegate/admission/rules"
	"github.com/tidegate/tidegate/admission/store/memorystore"
	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/httpapi/challenge"
	"github.com/tidegate/tidegate/internal/httpapi/charge"
	"github.com/tidegate/tidegate/internal/testenv"
)

var captchaSecret = []byte("a secret of at least 16 bytes")

// onceOnly is captcha.Used in memory.
type onceOnly struct{ keys sync.Map }

func (u *onceOnly) First(_ context.Context, key string, _ time.Duration) (bool, error) {
	_, there := u.keys.LoadOrStore(key, true)
	return !there, nil
}

// gateOf returns a gate with its own rules.
func gateOf(t testing.TB, set string) *admission.Gate {
	t.Helper()
	parsed, err := rules.Parse("test.yaml", []byte("version: 1\nrules:\n"+set))
	if err != nil {
		t.Fatal(err)
	}
	g, err := admission.NewWithStore(memorystore.New(memorystore.Options{}), parsed, admission.Options{Secret: captchaSecret})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// withCaptcha sets a real gate and real, easy challenges.
func withCaptcha(t testing.TB, rules string) func(*Config) {
	t.Helper()
	p, err := captcha.NewProofOfWork(captcha.ProofOfWorkOptions{Secret: captchaSecret, Used: new(onceOnly), MaxNumber: 50})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Captcha, c.Secret, c.Gate = p, captchaSecret, gateOf(t, rules) }
}

const openDoor = "- {name: door, algorithm: direct, action: allow}"

const orderHurdle = "- {name: hurdle, match: {method: POST}, subject: caller, limit: 1, window: 1h, on_exceed: challenge}\n"

// solution solves the challenge at a url of h.
func solution(t testing.TB, h http.Handler, url string, fields ...string) string {
	t.Helper()
	w := call(h, "GET", url, "", fields...)
	if w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%s: %d %v %s", url, w.Code, w.Header(), w.Body)
	}
	return solutionOf(t, w)
}

func solutionOf(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	return testenv.Solve(t, w.Body.Bytes())
}

// challengedFor returns the url of the challenge in a response, and checks the beginning of its detail.
func challengedFor(t *testing.T, w *httptest.ResponseRecorder, detail string) string {
	t.Helper()
	p := problemIn(t, w)
	if w.Code != 403 || p.Reason != "captcha_required" || p.Challenge == nil || p.Challenge.Provider != "altcha" || !strings.Contains(p.Detail, detail) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return p.Challenge.URL
}

const shoe = `{"item":"shoe"}`

// TestChallengeLetsOneOrderIn: 403, solve, 202; a used solution, or another caller's, admits no order.
func TestChallengeLetsOneOrderIn(t *testing.T) {
	for name, body := range map[string]string{"quick": shoe, "by Huma": `{"item":"\u0073hoe"}`} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, withCaptcha(t, orderHurdle))
			h := b.Public()
			if w := call(h, "POST", placePath, body); w.Code != 202 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			w := call(h, "POST", placePath, body)
			target := challengedFor(t, w, "")
			if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Retry-After") == "" || w.Header().Get("RateLimit") == "" {
				t.Errorf("%v", w.Header())
			}
			token := solution(t, h, target, "X-User-ID", "", "Remote", "198.51.100.9:1") // the widget sends no identity
			if w := call(h, "POST", placePath, body, "X-Captcha", token); w.Code != 202 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			again := challengedFor(t, call(h, "POST", placePath, body, "X-Captcha", token), "has been used")
			if w := call(h, "POST", placePath, body, "X-Captcha", solution(t, h, again)); w.Code != 202 {
				t.Errorf("the new challenge: %d %s", w.Code, w.Body)
			}
			anns := solution(t, h, challengedFor(t, call(h, "POST", placePath, body), ""))
			call(h, "POST", placePath, body, "X-User-ID", "bob")
			challengedFor(t, call(h, "POST", placePath, body, "X-User-ID", "bob", "X-Captcha", anns), "another caller")
			challengedFor(t, call(h, "POST", placePath, body, "X-Captcha", "x"), "is no solution")
			if w := call(h, "POST", placePath, body, "X-Captcha", solution(t, h, challenge.Path+"?purpose=order")); w.Code != 202 {
				t.Errorf("a challenge asked for beforehand: %d %s", w.Code, w.Body)
			}
		})
	}
}

// TestSolutionOfAnAddress: without a user the solution is bound to the address; for IPv6, to the part that rules count.
func TestSolutionOfAnAddress(t *testing.T) {
	b := setup(t, withCaptcha(t, orderHurdle))
	post := func(from, token string) *httptest.ResponseRecorder {
		return call(b.Public(), "POST", placePath, shoe, "X-User-ID", "", "Idempotency-Key", "k", "Remote", from, "X-Captcha", token)
	}
	post("[2001:db8::1]:1", "")
	token := solution(t, b.Public(), challengedFor(t, post("[2001:db8::1]:1", ""), ""))
	post("[2001:db8:0:1::1]:1", "")
	challengedFor(t, post("[2001:db8:0:1::1]:1", token), "another caller")
	if w := post("[2001:db8::2]:1", token); w.Code != 202 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSolutionOpensNoOtherRule(t *testing.T) {
	b := setup(t, withCaptcha(t, orderHurdle+"- {name: wall, match: {method: POST}, subject: caller, limit: 2, window: 1h, public: true}"))
	h := b.Public()
	call(h, "POST", placePath, shoe)
	target := challengedFor(t, call(h, "POST", placePath, shoe), "")
	if w := call(h, "POST", placePath, shoe, "X-Captcha", solution(t, h, target)); w.Code != 202 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	w := call(h, "POST", placePath, shoe, "X-Captcha", solution(t, h, target))
	if p := problemIn(t, w); w.Code != 429 || p.Challenge != nil || fmt.Sprint(p.ViolatedPolicies) != "[wall]" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestChallengeOfEverything: reads are challenged like orders; only the route of challenges is not.
func TestChallengeOfEverything(t *testing.T) {
	b := setup(t, withCaptcha(t, "- {name: prove, algorithm: direct, action: challenge}"))
	h := b.Public()
	for _, path := range []string{"/v1/sales/flash", "/v1/orders/" + orderID.String(), placePath} {
		target := challengedFor(t, call(h, "GET", path, ""), "")
		if w := call(h, "GET", path, "", "X-Captcha", solution(t, h, target)); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	deny := setup(t, withCaptcha(t, "- {name: wall, algorithm: direct, action: deny}"))
	if w := call(deny.Public(), "GET", challenge.Path+"?purpose=order", ""); w.Code != 403 {
		t.Errorf("a rule that denies does not hold for challenges: %d", w.Code)
	}
}

func TestAuthzHandsChallengesOn(t *testing.T) {
	b := setup(t, withCaptcha(t, orderHurdle))
	ask := func(token string) *httptest.ResponseRecorder {
		return gatewayCall(b, "GET", "/v1/authz", "X-Forwarded-Uri", "/buy", "X-Forwarded-Method", "POST", "X-Forwarded-For", "198.51.100.9",
			"X-User-ID", "ada", "X-Captcha", token)
	}
	ask("")
	token := solution(t, b.Public(), challengedFor(t, ask(""), ""))
	if w := ask(token); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	challengedFor(t, ask(token), "has been used")
}

// oddCaptcha fails as a test requires, after a delay.
type oddCaptcha struct {
	captcha.Provider
	err   error
	takes time.Duration
	asked int
}

func (o *oddCaptcha) Verify(context.Context, string, captcha.Binding, netip.Addr) error {
	o.asked++
	time.Sleep(o.takes)
	return o.err
}

func TestCaptchaIsAway(t *testing.T) {
	odd := &oddCaptcha{}
	b := setup(t, withCaptcha(t, "- {name: prove, algorithm: direct, action: challenge}"), func(c *Config) { odd.Provider, c.Captcha = c.Captcha, odd })
	odd.err = fmt.Errorf("%w: no route to host", captcha.ErrUnavailable)
	w := call(b.Public(), "POST", placePath, shoe, "X-Captcha", "x")
	if p := problemIn(t, w); w.Code != 503 || p.Reason != "store_unavailable" || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "route to host") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if got := fmt.Sprint(b.orders.calls); got != "[prepare screen replay]" { // the request might be a repeat
		t.Errorf("%v", b.orders.calls)
	}
	if strings.Contains(w.Body.String(), "provider") {
		t.Errorf("it is the store that is away: %s", w.Body)
	}
	odd.err = fmt.Errorf("%w: no route to host", captcha.ErrProvider)
	w = call(b.Public(), "POST", placePath, shoe, "X-Captcha", "x")
	if p := problemIn(t, w); w.Code != 503 || p.Reason != "store_unavailable" || p.Detail != "The CAPTCHA's provider gives no usable answer." {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	odd.err = captcha.ErrFellBack
	challengedFor(t, call(b.Public(), "POST", placePath, shoe, "X-Captcha", "x"), "Solve the new challenge")
	odd.err = errors.New("a bug")
	if w := call(b.Public(), "POST", placePath, shoe, "X-Captcha", "x"); w.Code != 500 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// patientGate records whether the context of a charge has time left.
type patientGate struct {
	charge.Gate
	left []time.Duration
}

func (g *patientGate) Charge(ctx context.Context, req admission.Request) (admission.Decision, error) {
	g.note(ctx)
	return g.Gate.Charge(ctx, req)
}

func (g *patientGate) ChargeUnless(
	ctx context.Context, req admission.Request, excused func(context.Context) bool,
) (admission.Decision, error) {
	g.note(ctx)
	return g.Gate.ChargeUnless(ctx, req, excused)
}

func (g *patientGate) note(ctx context.Context) {
	at, _ := ctx.Deadline()
	g.left = append(g.left, time.Until(at))
}

// TestVerifyingTakesNoTimeFromTheOrder: verifying with a provider may take longer than an order, and is not counted.
func TestVerifyingTakesNoTimeFromTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &patientGate{}
		b := setup(t, withCaptcha(t, "- {name: prove, algorithm: direct, action: challenge}"), func(c *Config) {
			c.Captcha = &oddCaptcha{Provider: c.Captcha, takes: 2 * time.Second}
			gate.Gate, c.Gate = c.Gate, gate
		})
		if w := call(b.Public(), "POST", placePath, shoe, "X-Captcha", "x"); w.Code != 202 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if fmt.Sprint(gate.left) != "[200ms 200ms]" {
			t.Errorf("%v", gate.left)
		}
	})
}

func TestOneSolutionAtATime(t *testing.T) {
	b := setup(t, withCaptcha(t, orderHurdle))
	r := httptest.NewRequest("POST", placePath, strings.NewReader(shoe))
	r.Header["X-Captcha"] = []string{"a", "b"}
	w := httptest.NewRecorder()
	b.Public().ServeHTTP(w, r)
	if w.Code != 422 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestCaptchaNeedsASecret(t *testing.T) {
	cfg := Config{Orders: &fakeOrders{}, Gate: &fakeGate{}, Identity: auth.HeaderIdentity{}}
	withCaptcha(t, openDoor)(&cfg)
	cfg.Secret = nil
	if _, err := New(cfg); err == nil {
		t.Error("accepted")
	}
}

// goneGate works until a request has a solution.
type goneGate struct{ charge.Gate }

func (g goneGate) Charge(ctx context.Context, req admission.Request) (admission.Decision, error) {
	if req.Solved && req.Method == http.MethodPost {
		return admission.Decision{}, admission.ErrUnavailable
	}
	return g.Gate.Charge(ctx, req)
}

// TestStoreGoesAwayAfterTheSolution: a store that fails while a solution is verified is an error of neither the caller nor this
// program.
func TestStoreGoesAwayAfterTheSolution(t *testing.T) {
	b := setup(t, withCaptcha(t, orderHurdle), func(c *Config) { c.Gate = goneGate{c.Gate} })
	h := b.Public()
	call(h, "POST", placePath, shoe)
	w := call(h, "POST", placePath, shoe)
	solved := solution(t, h, challengedFor(t, w, ""))
	if p := problemIn(t, call(h, "POST", placePath, shoe, "X-Captcha", solved)); p.Status != 503 || p.Reason != "store_unavailable" {
		t.Errorf("%+v", p)
	}
}
