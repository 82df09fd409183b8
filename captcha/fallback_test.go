package captcha_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/captcha"
)

// moody is a provider that is there or not; it likes every token but the one that asks whether it is there.
type moody struct {
	away  bool
	asked int
	says  map[string]any
}

func (m *moody) RoundTrip(r *http.Request) (*http.Response, error) {
	m.asked++
	if m.away {
		return nil, errors.New("no route to host")
	}
	says := m.says
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	if r.PostForm.Get("response") == "is-anybody-there" {
		says = map[string]any{"success": false, "error-codes": []string{"invalid-input-response"}}
	}
	text, err := json.Marshal(says)
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(text)))}, err
}

func TestProofOfWorkStandsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{}
		site := newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport = m })
		proof := newProof(t)
		f, err := captcha.NewFallback(site, proof, captcha.FallbackOptions{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		m.says = yes(described(t, f, login))
		stands := func(provider string, fallback bool) {
			t.Helper()
			c, err := f.Challenge(t.Context(), login)
			if err != nil || c.Provider != provider || f.Name() != provider || f.Stats().Fallback != fallback {
				t.Errorf("%s %v, want a challenge of %s", c.Provider, err, provider)
			}
		}
		verify := func(token string, want error) {
			t.Helper()
			if err := f.Verify(t.Context(), token, login, nobody); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", token, err, want)
			}
		}
		verify("a", nil)
		stands("turnstile", false)

		m.away = true
		verify("b", captcha.ErrUnavailable)
		verify("b", captcha.ErrUnavailable)
		stands("turnstile", false)
		if err := f.Verify(t.Context(), "b", login, nobody); !errors.Is(err, captcha.ErrFellBack) || !errors.Is(err, captcha.ErrUnavailable) {
			t.Errorf("the third: %v", err)
		}
		stands("altcha", true)
		asked := m.asked
		verify("b", captcha.ErrFellBack)
		stands("altcha", true)
		if m.asked != asked {
			t.Error("the provider is asked while it rests")
		}
		token := solved(t, f, login)
		verify(token, nil)
		wantCause(t, f.Verify(t.Context(), token, login, nobody), captcha.CauseUsed)

		late := solved(t, f, login)
		time.Sleep(30 * time.Second)
		stands("altcha", true) // found to be away still
		stands("altcha", true)
		if m.asked != asked+1 {
			t.Errorf("asked %d times, want once", m.asked-asked)
		}
		m.away = false
		time.Sleep(30 * time.Second)
		stands("turnstile", false)
		verify("b", nil)
		verify(late, nil) // asked for while the provider was away
		if s := f.Stats().Providers; len(s) != 2 || s[0].Unavailable != 4 || s[0].Solved != 2 || s[1].Solved != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A provider that rejects our secret is unusable too.
func TestFallbackFromAWrongSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{says: map[string]any{"success": false, "error-codes": []string{"invalid-input-secret"}}}
		f, err := captcha.NewFallback(newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport = m }), newProof(t),
			captcha.FallbackOptions{Failures: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Verify(t.Context(), "a", login, nobody); !errors.Is(err, captcha.ErrFellBack) {
			t.Error(err)
		}
	})
}

// What a token can make the provider say does not turn it off, however often it is sent.
func TestNobodyTurnsTheProviderOff(t *testing.T) {
	for _, code := range []string{
		"bad-request", "browser-error", "invalid-keys", "invalid-or-already-seen-response", "sitekey-secret-mismatch", "timeout-or-duplicate", "what-is-this",
	} {
		m := &moody{says: map[string]any{"success": false, "error-codes": []string{code}}}
		site := newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport = m })
		f, err := captcha.NewFallback(site, newProof(t), captcha.FallbackOptions{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := f.Verify(t.Context(), "token", login, nobody); !errors.Is(err, captcha.ErrRefused) {
				t.Errorf("%s: %v", code, err)
			}
		}
		if f.Stats().Fallback {
			t.Errorf("ten tokens with %s turned the provider off", code)
		}
	}
}

// What is not the provider's fault does not count against it: refusals, the store.
func TestFallbackOnlyFromTheProvider(t *testing.T) {
	used := &memoryUsed{}
	m := &moody{}
	f, err := captcha.NewFallback(newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport, o.Used = m, used }), newProof(t),
		captcha.FallbackOptions{Failures: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m.says = yes(described(t, f, login))
	wantCause(t, f.Verify(t.Context(), "a", captcha.Binding{Purpose: "login", Subject: "bob"}, nobody), captcha.CauseForeign)
	used.err = errors.New("away")
	if err := f.Verify(t.Context(), "a", login, nobody); !errors.Is(err, captcha.ErrUnavailable) {
		t.Error(err)
	}
	if f.Stats().Fallback {
		t.Error("fell back")
	}
}

// Nor does it count for it: a row of failures ends when the provider answers, and not with a mistake of the caller's.
func TestMistakesDoNotEndARowOfFailures(t *testing.T) {
	f, err := captcha.NewFallback(newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport = &moody{away: true} }), newProof(t),
		captcha.FallbackOptions{Failures: 2, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		token string
		b     captcha.Binding
		away  bool
	}{{"a", login, false}, {"a", captcha.Binding{}, false}, {"", login, false}, {"a", login, true}} {
		if err := f.Verify(t.Context(), step.token, step.b, nobody); err == nil || errors.Is(err, captcha.ErrFellBack) != step.away || f.Stats().Fallback != step.away {
			t.Errorf("%+v: %v, fell back: %t", step, err, f.Stats().Fallback)
		}
	}
}

// An impatient caller has a shorter deadline than the provider, like most HTTP clients.
func impatient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// The provider accepts connections and never answers. This is detected even if no caller waits until the timeout.
func TestSilenceCountsWhoeverWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f, err := captcha.NewFallback(newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport = silence{} }), newProof(t),
			captcha.FallbackOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if f.Stats().Fallback {
				t.Error("fell back too early")
			}
			if err := f.Verify(impatient(t), "token", login, nobody); !errors.Is(err, captcha.ErrProvider) {
				t.Error(err)
			}
		}
		c, err := f.Challenge(t.Context(), login)
		if err != nil || c.Provider != "altcha" {
			t.Errorf("%s %v after three silences", c.Provider, err)
		}
		if said := log.String(); strings.Count(said, "captcha provider does not answer") != 2 || strings.Count(said, "proof of work replaces it") != 1 {
			t.Errorf("the log has\n%s", said)
		}
	})
}

// late answers as another does, after a while.
type late struct {
	http.RoundTripper
	takes time.Duration
}

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(l.takes):
		return l.RoundTripper.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// If the caller has gone before the answer, nothing is proved or used up, and the provider is not to blame.
func TestCallersWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, used := &moody{}, &memoryUsed{}
		site := newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport, o.Used = late{m, 2500 * time.Millisecond}, used })
		f, err := captcha.NewFallback(site, newProof(t), captcha.FallbackOptions{Failures: 1})
		if err != nil {
			t.Fatal(err)
		}
		m.says = yes(described(t, f, login))
		for range 3 {
			if err := f.Verify(impatient(t), "token", login, nobody); !errors.Is(err, captcha.ErrUnavailable) || errors.Is(err, captcha.ErrProvider) {
				t.Error(err)
			}
		}
		if f.Stats().Fallback || len(used.keys) != 0 {
			t.Errorf("fell back: %t, marked: %v", f.Stats().Fallback, used.keys)
		}
		if err := f.Verify(t.Context(), "token", login, nobody); err != nil {
			t.Errorf("a caller who stays: %v", err)
		}
	})
}

// Who is to find out whether the provider is back finds out for all, also if he leaves.
func TestAskingAgainOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &moody{away: true}
		site := newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport = late{m, 2500 * time.Millisecond} })
		f, err := captcha.NewFallback(site, newProof(t), captcha.FallbackOptions{Failures: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Verify(t.Context(), "token", login, nobody)
		m.away = false
		time.Sleep(30 * time.Second)
		_, _ = f.Challenge(impatient(t), login)
		if f.Stats().Fallback {
			t.Error("the provider is back, and nobody knows")
		}
	})
}
