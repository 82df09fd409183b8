package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/httpapi/challenge"
)

// forParameter returns the parameter for in the url of a challenge for a binding.
func forParameter(b *bed, bind captcha.Binding) string {
	_, sealed, _ := strings.Cut(b.challenges.ChallengeFor(bind).URL, "for=")
	sealed, _, _ = strings.Cut(sealed, "&")
	return sealed
}

func TestChallengeRoute(t *testing.T) {
	b := setup(t, withCaptcha(t, openDoor))
	sealed := func(bind captcha.Binding) string { return forParameter(b, bind) }
	login := captcha.Binding{Purpose: "login", Subject: "x", Risk: 3}
	other := setup(t, withCaptcha(t, openDoor), func(c *Config) { c.Secret = []byte("another secret") })
	for target, want := range map[string]string{
		"?purpose=order":                      "",
		"?purpose=login&for=" + sealed(login): "",
		"":                                    "query.purpose",
		"?purpose=Login":                      "query.purpose",
		"?purpose=login":                      "query.for is required",
		"?purpose=login&for=x":                "query.for must be copied",
		"?purpose=login&for=x.y":              "query.for must be copied",
		"?purpose=login&for=" + sealed(login) + "x":                                     "query.for must be copied",
		"?purpose=login&for=" + forParameter(other, login):                              "query.for must be copied",
		"?purpose=login&for=" + strings.Repeat("x", 513):                                "query.for",
		"?purpose=order&for=" + sealed(login):                                           "query.purpose must be the purpose that",
		"?purpose=order&for=" + sealed(captcha.Binding{Purpose: "order", Subject: "x"}): "",
	} {
		for _, h := range []http.Handler{b.Public(), b.Internal()} {
			w := call(h, "GET", challenge.Path+target, "")
			if want == "" {
				if w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("%s: %d %s", target, w.Code, w.Body)
				}
				continue
			}
			p := problemIn(t, w)
			if w.Code != 422 || len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Location+" "+p.Errors[0].Message, want) {
				t.Errorf("%s: %d %s, want %s", target, w.Code, w.Body, want)
			}
		}
	}
	w := call(b.Public(), "GET", challenge.Path+"?purpose=login&for="+sealed(login), "")
	if err := b.challenges.Provider.Verify(t.Context(), solutionOf(t, w), login, netip.Addr{}); err != nil {
		t.Errorf("the challenge is for another binding, or easier: %v", err)
	}
	if none := setup(t); call(none.Public(), "GET", challenge.Path+"?purpose=order", "").Code != 404 {
		t.Error("challenges without a provider")
	}
}

// TestChallengesAreLimited: the route's own limit applies in addition to the rules, per address, on the public listener.
func TestChallengesAreLimited(t *testing.T) {
	b := setup(t, withCaptcha(t, openDoor), func(c *Config) { c.CaptchaLimit = gateOf(t, "- {name: challenges, subject: ip, limit: 2, window: 1m}") })
	get := func(h http.Handler, from string) int {
		return call(h, "GET", challenge.Path+"?purpose=order", "", "Remote", from).Code
	}
	for i, want := range []int{200, 200, 429} {
		if got := get(b.Public(), "198.51.100.9:1"); got != want {
			t.Errorf("%d: %d, want %d", i, got, want)
		}
	}
	if got := get(b.Public(), "198.51.100.10:1"); got != 200 {
		t.Errorf("another address: %d", got)
	}
	for range 3 {
		if got := get(b.Internal(), "198.51.100.9:1"); got != 200 {
			t.Errorf("a service: %d", got)
		}
	}
}

// TestSolutionsAreLimited: solutions are limited before they are verified.
func TestSolutionsAreLimited(t *testing.T) {
	odd := &oddCaptcha{err: &captcha.RefusedError{Cause: captcha.CauseWrong}}
	b := setup(t, withCaptcha(t, "- {name: prove, algorithm: direct, action: challenge}"), func(c *Config) {
		odd.Provider, c.Captcha = c.Captcha, odd
		c.CaptchaLimit = gateOf(t, "- {name: solutions, match: {route: /x-captcha}, subject: ip, limit: 2, window: 1m}")
	})
	for i, want := range []int{403, 403, 429} {
		if w := call(b.Public(), "POST", placePath, shoe, "X-Captcha", "x"); w.Code != want || want == 429 && w.Header().Get("Retry-After") == "" {
			t.Errorf("%d: %d %s, want %d", i, w.Code, w.Body, want)
		}
	}
	if odd.asked != 2 {
		t.Errorf("verified %d", odd.asked)
	}
}

func TestChallengesMatchTheDocument(t *testing.T) {
	b := setup(t, withCaptcha(t, orderHurdle), func(c *Config) { c.CaptchaLimit = gateOf(t, "- {name: challenges, subject: ip, limit: 2, window: 1m}") })
	for _, h := range []http.Handler{b.Public(), b.Internal()} {
		answers(t, h, "GET", challenge.Path+"?purpose=order", "", 200)
		answers(t, h, "GET", challenge.Path, "", 422)
	}
	answers(t, b.Public(), "GET", challenge.Path+"?purpose=order", "", 429)
	answers(t, b.Public(), "POST", placePath, shoe, 202)
	answers(t, b.Public(), "POST", placePath, shoe, 403)
}

// hangingProvider accepts requests and never answers.
type hangingProvider struct{}

func (hangingProvider) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestHangUpsFindOutThatTheProviderIsAway: requests of buyers who disconnect before the provider's timeout still count as its
// failures, and place no order.
func TestHangUpsFindOutThatTheProviderIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, withCaptcha(t, "- {name: prove, algorithm: direct, action: challenge}"), func(c *Config) {
			site, err := captcha.NewSiteVerify(captcha.SiteVerifyOptions{
				Provider: "turnstile", SiteKey: "site", Secret: "secret", Hostnames: []string{"shop.example"}, Used: new(onceOnly), Transport: hangingProvider{},
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.Captcha, err = captcha.NewFallback(site, c.Captcha.(*captcha.ProofOfWork), captcha.FallbackOptions{Logger: c.Logger}); err != nil {
				t.Fatal(err)
			}
		})
		for range 3 {
			ctx, hangUp := context.WithTimeout(t.Context(), 2*time.Second)
			r := httptest.NewRequestWithContext(ctx, "POST", placePath, strings.NewReader(shoe))
			r.Header.Set("X-Captcha", "x")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "k")
			b.Public().ServeHTTP(httptest.NewRecorder(), r)
			hangUp()
		}
		solved := solution(t, b.Public(), challengedFor(t, call(b.Public(), "POST", placePath, shoe, "X-Captcha", "x"), "Solve the new challenge"))
		if w := call(b.Public(), "POST", placePath, shoe, "X-Captcha", solved); w.Code != 202 || strings.Count(strings.Join(b.orders.calls, " "), "reserve") != 1 {
			t.Errorf("%d %s after %v", w.Code, w.Body, b.orders.calls)
		}
	})
}
