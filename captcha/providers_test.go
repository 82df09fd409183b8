package captcha_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidegate/tidegate/captcha"
)

// theirs is a provider on this machine. What it answers is the test's.
type theirs struct {
	transport *http.Transport
	mu        sync.Mutex
	answer    http.HandlerFunc // guarded by mu
	asked     []url.Values     // guarded by mu
	hosts     []string         // guarded by mu
}

// serveTheirs starts one. Its transport carries every request there, whatever host it is for.
func serveTheirs(t testing.TB) *theirs {
	h := &theirs{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		h.mu.Lock()
		h.asked, h.hosts = append(h.asked, r.PostForm), append(h.hosts, r.Host+r.URL.Path)
		answer := h.answer
		h.mu.Unlock()
		answer(w, r)
	}))
	h.transport = &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
	t.Cleanup(func() { h.transport.CloseIdleConnections(); server.Close() })
	return h
}

func (h *theirs) says(answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

func (h *theirs) saysJSON(v any) {
	h.says(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) })
}

func (h *theirs) times() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

func newSite(t testing.TB, h *theirs, change ...func(*captcha.SiteVerifyOptions)) *captcha.SiteVerify {
	t.Helper()
	o := captcha.SiteVerifyOptions{
		Provider: "turnstile", SiteKey: "site", Secret: "hunter2", Hostnames: []string{"Shop.example"}, Used: &memoryUsed{}, Transport: h.transport,
	}
	for _, c := range change {
		c(&o)
	}
	v, err := captcha.NewSiteVerify(o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// described is the challenge for a binding.
func described(t testing.TB, p captcha.Provider, b captcha.Binding) map[string]string {
	t.Helper()
	c, err := p.Challenge(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	if err := json.Unmarshal(c.JSON, &fields); err != nil || c.Provider != fields["provider"] {
		t.Fatal(err, string(c.JSON))
	}
	return fields
}

// yes is a provider's answer about a valid token for a challenge.
func yes(challenge map[string]string) map[string]any {
	return map[string]any{"success": true, "hostname": "shop.example", "action": challenge["action"], "cdata": challenge["cdata"]}
}

func TestTurnstileVerifies(t *testing.T) {
	h, used := serveTheirs(t), &memoryUsed{}
	v := newSite(t, h, func(o *captcha.SiteVerifyOptions) { o.Used = used })
	c := described(t, v, login)
	if c["provider"] != "turnstile" || c["sitekey"] != "site" || c["action"] != "login" || c["cdata"] == "" || strings.Contains(c["cdata"], "ann") {
		t.Errorf("%v", c)
	}
	h.saysJSON(yes(c))
	if err := v.Verify(t.Context(), "token", login, netip.MustParseAddr("::ffff:192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	form := h.asked[0]
	if form.Get("secret") != "hunter2" || form.Get("response") != "token" || form.Get("remoteip") != "192.0.2.1" {
		t.Errorf("%v", form)
	}
	if h.hosts[0] != "challenges.cloudflare.com/turnstile/v0/siteverify" {
		t.Errorf("asked %s", h.hosts[0])
	}
	for key, ttl := range used.keys {
		if ttl <= 5*time.Minute {
			t.Errorf("%s is forgotten after %v, while the provider may say yes again", key, ttl)
		}
	}
	wantCause(t, v.Verify(t.Context(), "token", login, nobody), captcha.CauseUsed)
	if s := v.Stats().Providers[0]; s.Challenges != 1 || s.Solved != 1 || s.Refused[captcha.CauseUsed] != 1 {
		t.Errorf("%+v", s)
	}
}

// Each is enough to refuse.
func TestAnswersThatRefuse(t *testing.T) {
	h := serveTheirs(t)
	for name, tt := range map[string]struct {
		provider string
		change   map[string]any
		want     captcha.Cause
	}{
		"success=false":    {"turnstile", map[string]any{"success": false, "error-codes": []string{"invalid-input-response"}}, captcha.CauseWrong},
		"no success":       {"turnstile", map[string]any{"success": nil}, captcha.CauseWrong},
		"replayed":         {"turnstile", map[string]any{"success": false, "error-codes": []string{"timeout-or-duplicate"}}, captcha.CauseExpired},
		"seen":             {"hcaptcha", map[string]any{"success": false, "error-codes": []string{"already-seen-response"}}, captcha.CauseUsed},
		"seen or wrong":    {"hcaptcha", map[string]any{"success": false, "error-codes": []string{"invalid-or-already-seen-response"}}, captcha.CauseUsed},
		"another's token":  {"hcaptcha", map[string]any{"success": false, "error-codes": []string{"sitekey-secret-mismatch"}}, captcha.CauseForeign},
		"unknown code":     {"recaptcha", map[string]any{"success": false, "error-codes": []string{"browser-error"}}, captcha.CauseWrong},
		"hostname":         {"turnstile", map[string]any{"hostname": "evil.example"}, captcha.CauseForeign},
		"no hostname":      {"hcaptcha", map[string]any{"hostname": ""}, captcha.CauseForeign},
		"action":           {"turnstile", map[string]any{"action": "order"}, captcha.CauseForeign},
		"no action":        {"turnstile", map[string]any{"action": nil}, captcha.CauseForeign},
		"cdata":            {"turnstile", map[string]any{"cdata": "x"}, captcha.CauseForeign},
		"action of v3":     {"recaptcha", map[string]any{"action": "order", "score": 0.9}, captcha.CauseForeign},
		"low score":        {"recaptcha", map[string]any{"score": 0.49}, captcha.CauseWrong},
		"turnstile's good": {"turnstile", nil, ""},
		"capitals":         {"turnstile", map[string]any{"hostname": "SHOP.Example"}, ""},
		"hcaptcha's good":  {"hcaptcha", map[string]any{"action": nil, "cdata": nil, "score": 0.1}, ""},
		"v2's good":        {"recaptcha", map[string]any{"action": nil}, ""},
		"v3's good":        {"recaptcha", map[string]any{"score": 0.5}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := newSite(t, h, func(o *captcha.SiteVerifyOptions) { o.Provider = tt.provider })
			says := yes(described(t, v, login))
			for field, value := range tt.change {
				says[field] = value
			}
			h.saysJSON(says)
			err := v.Verify(t.Context(), "token", login, nobody)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantCause(t, err, tt.want)
		})
	}
}

// A token that cannot be verified is not accepted.
func TestAnswersThatAreNone(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"not 200":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"success":true}`, 500) },
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"a list":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[]") },
		"cut off":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a secret": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"error-codes":["invalid-input-secret"]}`)
		},
		"their bug": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"error-codes":["internal-error"]}`)
		},
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"success":true,"hostname":"shop.example","action":"login","x":%q}`, strings.Repeat("x", 1<<20))
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := serveTheirs(t)
			h.says(answer)
			v := newSite(t, h)
			err := v.Verify(t.Context(), "token", login, nobody)
			if !errors.Is(err, captcha.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
				t.Error(err)
			}
			if s := v.Stats().Providers[0]; s.Unavailable != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// silence never answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestProviderIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport = silence{} })
		start := time.Now()
		if err := v.Verify(t.Context(), "token", login, nobody); !errors.Is(err, captcha.ErrUnavailable) {
			t.Error(err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A flood of tokens occupies a limited number of callers, and does not count as an outage of the provider.
func TestProviderIsNotFlooded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSite(t, &theirs{}, func(o *captcha.SiteVerifyOptions) { o.Transport = silence{} })
		f, err := captcha.NewFallback(v, newProof(t), captcha.FallbackOptions{Failures: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		var waiting sync.WaitGroup
		for range 64 {
			waiting.Go(func() { _ = f.Verify(t.Context(), "token", login, nobody) })
		}
		synctest.Wait()
		start := time.Now()
		if err := f.Verify(t.Context(), "token", login, nobody); !errors.Is(err, captcha.ErrProvider) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if f.Stats().Fallback {
			t.Error("fell back")
		}
		waiting.Wait()
	})
}

func TestTokensThatNobodyIsAskedAbout(t *testing.T) {
	h := serveTheirs(t)
	v := newSite(t, h)
	for _, token := range []string{"", strings.Repeat("x", 2049), "a b", "a\nb", "é"} {
		wantCause(t, v.Verify(t.Context(), token, login, nobody), captcha.CauseMalformed)
	}
	if n := h.times(); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

func TestGoodTokenWhileTheStoreIsAway(t *testing.T) {
	h := serveTheirs(t)
	v := newSite(t, h, func(o *captcha.SiteVerifyOptions) { o.Used = &memoryUsed{err: errors.New("away")} })
	h.saysJSON(yes(described(t, v, login)))
	if err := v.Verify(t.Context(), "token", login, nobody); !errors.Is(err, captcha.ErrUnavailable) {
		t.Error(err)
	}
}

func TestSiteVerifyOptions(t *testing.T) {
	for name, change := range map[string]func(*captcha.SiteVerifyOptions){
		"provider": func(o *captcha.SiteVerifyOptions) { o.Provider = "https://127.0.0.1" },
		"site key": func(o *captcha.SiteVerifyOptions) { o.SiteKey = "" },
		"secret":   func(o *captcha.SiteVerifyOptions) { o.Secret = "" },
		"nobody":   func(o *captcha.SiteVerifyOptions) { o.Hostnames = nil },
		"anybody":  func(o *captcha.SiteVerifyOptions) { o.Hostnames = []string{"*"} },
		"a URL":    func(o *captcha.SiteVerifyOptions) { o.Hostnames = []string{"https://shop.example"} },
		"empty":    func(o *captcha.SiteVerifyOptions) { o.Hostnames = []string{""} },
		"store":    func(o *captcha.SiteVerifyOptions) { o.Used = nil },
		"score":    func(o *captcha.SiteVerifyOptions) { o.MinScore = 2 },
	} {
		o := captcha.SiteVerifyOptions{Provider: "turnstile", SiteKey: "a", Secret: "b", Hostnames: []string{"c"}, Used: &memoryUsed{}}
		change(&o)
		if _, err := captcha.NewSiteVerify(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
