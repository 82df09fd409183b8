package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake answers as a Tidegate that does what no good one does.
func fake(t *testing.T, handler http.HandlerFunc) *visitor {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newVisitor(t, serve(t, server.URL))
}

func say(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

func TestWithoutADecisionNobodyGetsIn(t *testing.T) {
	for name, c := range map[string]struct {
		tidegate http.HandlerFunc
		status   int
	}{
		"no answer":                 {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, http.StatusServiceUnavailable},
		"unavailable":               {say(http.StatusServiceUnavailable, `{}`), http.StatusServiceUnavailable},
		"our token is wrong":        {say(http.StatusUnauthorized, `{}`), http.StatusServiceUnavailable},
		"no JSON":                   {say(http.StatusOK, `allow`), http.StatusServiceUnavailable},
		"a widget that we have not": {say(http.StatusOK, `{"decision":"challenge","challenge":{"provider":"turnstile"}}`), http.StatusServiceUnavailable},
		"nothing decided":           {say(http.StatusOK, `{}`), http.StatusUnauthorized},
		"a word of the future":      {say(http.StatusOK, `{"decision":"ponder"}`), http.StatusUnauthorized},
		"no login name":             {say(http.StatusUnprocessableEntity, `{}`), http.StatusUnauthorized},
	} {
		a := fake(t, c.tidegate).login(owner, password, "")
		if a.status != c.status || len(a.header["Set-Cookie"]) > 0 {
			t.Errorf("%s: %d %v", name, a.status, a.header["Set-Cookie"])
		}
		if a.status == http.StatusServiceUnavailable && (a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "try again")) {
			t.Errorf("%s: %v", name, a)
		}
	}
}

func TestATidegateThatHangsHoldsNoLogin(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // then the server notices who has gone
		<-r.Context().Done()
	}))
	defer server.Close()
	client := newTidegate(server.URL, "")
	if wait := client.client.Timeout; wait <= 3*time.Second || wait > 10*time.Second {
		t.Errorf("the client waits for %v: for ever, or less than the provider of a CAPTCHA has", wait)
	}
	client.client.Timeout = 20 * time.Millisecond
	if _, err := client.decide(t.Context(), attempt{}); err == nil {
		t.Error("decided")
	}
	// The id of an attempt allows settling it, so it is kept out of logs.
	if _, err := client.settle(t.Context(), "secret", "success"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestADelayIsTheBrowsers(t *testing.T) {
	a := fake(t, say(http.StatusOK, `{"decision":"delay","retry_after_ms":1001}`)).login(owner, password, "")
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "2" || !strings.Contains(a.body, "2&nbsp;seconds") {
		t.Errorf("%v", a)
	}
}

// diary is a Tidegate that allows everything, drops the first answer to each call, and records the requests.
type diary struct {
	mu   sync.Mutex
	told []map[string]string // guarded by mu while requests come
}

func (d *diary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := map[string]string{"path": r.URL.Path}
	_ = json.NewDecoder(r.Body).Decode(&call)
	d.mu.Lock()
	d.told = append(d.told, call)
	lost := len(d.told)%2 == 1
	d.mu.Unlock()
	if lost {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, `{"decision":"allow","attempt_id":"a1","device":"d1"}`)
}

// What is sent again is the same, and the password is not in it.
func TestWhatTidegateIsTold(t *testing.T) {
	var d diary
	v := fake(t, d.ServeHTTP)
	if a := v.login(owner, password, "solution"); a.status != http.StatusSeeOther {
		t.Fatalf("%v", a)
	}
	if a := v.login(owner, "wrong", ""); a.status != http.StatusUnauthorized {
		t.Fatalf("%v", a)
	}
	attempt := map[string]string{"path": "/v1/login/attempts", "name": owner, "ip": "127.0.0.1", "captcha": "solution"}
	later := map[string]string{"path": "/v1/login/attempts", "name": owner, "ip": "127.0.0.1", "device": "d1"}
	look := map[string]string{"path": "/v1/login/attempts", "name": owner, "ip": "127.0.0.1", "device": "d1", "mode": "check"}
	settled := func(result string) map[string]string {
		return map[string]string{"path": "/v1/login/attempts/a1/outcome", "result": result}
	}
	ids := map[string]int{}
	for _, call := range d.told {
		if id := call["request_id"]; id != "" {
			ids[id]++
			delete(call, "request_id")
		}
	}
	want := []map[string]string{
		attempt, attempt, settled("success"), settled("success"), later, later, settled("failure"), settled("failure"), look, look,
	}
	if diff := cmp.Diff(want, d.told); diff != "" {
		t.Error(diff)
	}
	for _, times := range ids {
		if times != 2 {
			t.Errorf("of each attempt two calls with one id: %v", ids)
		}
	}
	if len(ids) != 2 {
		t.Errorf("two attempts have the ids %v", ids)
	}
}

// An allowed attempt with the correct password logs in, even if its settlement fails.
func TestAnOutcomeThatIsLostKeepsNobodyOut(t *testing.T) {
	v := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/outcome") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"decision":"allow","attempt_id":"a1"}`)
	})
	if a := v.login(owner, password, ""); a.status != http.StatusSeeOther {
		t.Errorf("%v", a)
	}
	if a := v.do("GET", "/", ""); !strings.Contains(a.body, "Hello, ada") {
		t.Errorf("%v", a)
	}
	site, _ := url.Parse(v.page)
	kept := v.client.Jar.Cookies(site)
	if a := v.do("POST", "/logout", ""); a.status != http.StatusSeeOther || len(v.client.Jar.Cookies(site)) > 0 {
		t.Errorf("%v", a)
	}
	v.client.Jar.SetCookies(site, kept) // whoever has copied it
	if a := v.do("GET", "/", ""); a.status != http.StatusSeeOther {
		t.Errorf("logged out: %v", a)
	}
}

// A password that could not be checked is no guess. Here the decoy hash for unknown names is missing, so the check fails.
func TestAPasswordThatCannotBeChecked(t *testing.T) {
	var d diary
	tidegate := httptest.NewServer(&d)
	defer tidegate.Close()
	page := httptest.NewServer(newSite(newTidegate(tidegate.URL, ""), &accounts{slots: make(chan struct{}, 1)}, false))
	defer page.Close()
	if a := newVisitor(t, page.URL).login("eve", password, ""); a.status != http.StatusServiceUnavailable || len(a.header["Set-Cookie"]) > 0 {
		t.Errorf("%v", a)
	}
	if last := d.told[len(d.told)-1]; last["result"] != "error" {
		t.Errorf("settled as %v", last)
	}
}

// Who does not wait for a hash has not guessed.
func TestHashingIsBounded(t *testing.T) {
	a := &accounts{slots: make(chan struct{}, 1)}
	a.slots <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.check(ctx, owner, password); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
