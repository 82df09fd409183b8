package main

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	altcha "github.com/altcha-org/altcha-lib-go"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"
)

// Whoever looks at the pages learns nothing about which names exist, however often he tries.
func TestNamesThatExistLookLikeNamesThatDoNot(t *testing.T) {
	const stranger = "eve" // as long as the owner's, so that the length of the page may not differ either
	page, tidegate := start(t)
	var denied, refused answer
	for _, step := range []struct {
		what     string
		password string
		before   func(name string)
		status   int
		widget   bool
	}{
		{what: "first", status: http.StatusUnauthorized},
		{what: "second", status: http.StatusUnauthorized},
		{what: "third", status: http.StatusUnauthorized, widget: true},
		{what: "without a solution", status: http.StatusForbidden, widget: true},
		{what: "without a solution, the right one", password: password, status: http.StatusForbidden, widget: true},
		{what: "denied", status: http.StatusUnauthorized, before: func(name string) {
			for range 7 {
				report(t, tidegate, name, "127.0.0.1")
			}
		}},
		{what: "denied, the right one", password: password, status: http.StatusUnauthorized},
	} {
		seen := map[string]answer{}
		for _, name := range []string{owner, stranger} {
			if step.before != nil {
				step.before(name)
			}
			a := newVisitor(t, page).login(name, step.password, "")
			if a.status != step.status || strings.Contains(a.body, "<altcha-widget") != step.widget {
				t.Errorf("%s, %s: %d\n%s", step.what, name, a.status, a.body)
			}
			seen[name] = a.without(name)
		}
		if diff := cmp.Diff(seen[owner], seen[stranger], cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
		if refused.status == 0 {
			refused = seen[owner]
		}
		denied = seen[owner]
	}
	if refused.body != denied.body {
		t.Errorf("a denial looks different: %s", cmp.Diff(refused.body, denied.body))
	}
}

var challengeURLs = regexp.MustCompile(`challenge="(/captcha/challenge\?[^"]*)"`)

// without leaves out what is the visitor's own: the name, for whom the challenge is, and the time.
func (a answer) without(name string) answer {
	a.header = a.header.Clone()
	a.header.Del("Date")
	if a.header.Get("Retry-After") != "" {
		a.header.Set("Retry-After", "some")
	}
	a.body = challengeURLs.ReplaceAllStringFunc(a.body, func(url string) string { return strings.Repeat("*", len(url)) })
	a.body = strings.Replace(a.body, `value="`+name+`"`, `value=""`, 1)
	return a
}

// solve does what the widget does with the challenge on a page.
func (v *visitor) solve(on answer) string {
	v.t.Helper()
	at := challengeURLs.FindStringSubmatch(on.body)
	if at == nil {
		v.t.Fatalf("no challenge on\n%s", on.body)
	}
	a := v.do("GET", html.UnescapeString(at[1]), "")
	var c altcha.Challenge
	if err := json.Unmarshal([]byte(a.body), &c); err != nil || a.header.Get("Cache-Control") != "no-store" {
		v.t.Fatalf("%v: %v", a, err)
	}
	s, err := altcha.SolveChallenge(c.Challenge, c.Salt, altcha.SHA256, int(c.MaxNumber), 0, nil)
	if err != nil || s == nil {
		v.t.Fatal("there is no solution ", err)
	}
	text, err := json.Marshal(altcha.Payload{Algorithm: c.Algorithm, Challenge: c.Challenge, Number: int64(s.Number), Salt: c.Salt, Signature: c.Signature})
	if err != nil {
		v.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}

func TestAChallengeThatNobodyOffered(t *testing.T) {
	page, _ := start(t)
	if a := newVisitor(t, page).do("GET", "/captcha/challenge?purpose=login&for=me", ""); a.status != http.StatusNotFound {
		t.Errorf("%v", a)
	}
}

func TestASolutionOpensOneAttempt(t *testing.T) {
	page, tidegate := start(t)
	report(t, tidegate, owner, "198.51.100.1", "198.51.100.2", "198.51.100.3")
	v := newVisitor(t, page)
	solution := v.solve(v.login(owner, "wrong", ""))
	if a := v.login(owner, "wrong", solution); a.status != http.StatusUnauthorized {
		t.Fatalf("solved: %d", a.status)
	}
	again := v.login(owner, password, solution)
	if again.status != http.StatusForbidden {
		t.Fatalf("the same form again: %d", again.status)
	}
	if a := v.login(owner, password, v.solve(again)); a.status != http.StatusSeeOther {
		t.Errorf("solved anew: %d", a.status)
	}
}

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
	if client.client.Timeout == 0 {
		t.Fatal("the client waits for ever")
	}
	client.client.Timeout = 20 * time.Millisecond
	if _, err := client.decide(t.Context(), attempt{}); err == nil {
		t.Error("decided")
	}
	// Who knows the id of an attempt can say how it ended, so it stays out of logs.
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

// diary is a Tidegate that allows everything, loses the first answer to each call, and notes what it is told.
type diary struct{ told []map[string]string }

func (d *diary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := map[string]string{"path": r.URL.Path}
	_ = json.NewDecoder(r.Body).Decode(&call)
	d.told = append(d.told, call)
	if len(d.told)%2 == 1 {
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
	for id, times := range ids {
		if len(ids) != 2 || times != 2 {
			t.Errorf("%d ids, %s %d times", len(ids), id, times)
		}
	}
}

// Who was allowed and knows the password is in, whatever becomes of the outcome.
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
	if a := v.do("POST", "/logout", ""); a.status != http.StatusSeeOther {
		t.Errorf("%v", a)
	}
	if a := v.do("GET", "/", ""); a.status != http.StatusSeeOther {
		t.Errorf("logged out: %v", a)
	}
}

func TestCookies(t *testing.T) {
	for https, want := range map[bool][]string{
		false: {"device=d1; Path=/; Max-Age=7776000; HttpOnly; SameSite=Lax"},
		true:  {"__Host-device=d1; Path=/; Max-Age=7776000; HttpOnly; Secure; SameSite=Lax"},
	} {
		w := httptest.NewRecorder()
		(&site{https: https}).setCookie(w, "device", "d1", 90*24*time.Hour)
		if diff := cmp.Diff(want, w.Header()["Set-Cookie"]); diff != "" {
			t.Error(diff)
		}
		r := httptest.NewRequest("GET", "/", nil)
		for _, name := range []string{"device", "__Host-device"} {
			r.AddCookie(&http.Cookie{Name: name, Value: name})
		}
		if got := (&site{https: https}).cookie(r, "device"); !strings.HasPrefix(want[0], got+"=") {
			t.Errorf("%t: %s is read", https, got)
		}
	}
}

func TestFormsOfOtherSites(t *testing.T) {
	v := fake(t, say(http.StatusOK, `{"decision":"allow"}`))
	for _, path := range []string{"/login", "/logout"} {
		if a := v.do("POST", path, "", "Sec-Fetch-Site", "cross-site"); a.status != http.StatusForbidden || strings.Contains(a.body, "<form") {
			t.Errorf("%s: %v", path, a)
		}
	}
	for _, path := range []string{"/login", "/", "/style.css", "/captcha/widget.js", "/nothing"} {
		if a := v.do("GET", path, ""); a.header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: %v", path, a.header)
		}
	}
}

// Where there is no such name, there is as much to do.
func TestUnknownNamesCostAsMuch(t *testing.T) {
	a, err := newAccounts(map[string]string{" Ada": password}, bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	known, _ := bcrypt.Cost(a.hashes["ada"])
	if unknown, err := bcrypt.Cost(a.decoy); unknown != known || err != nil {
		t.Errorf("the decoy's cost is %d, that of passwords %d, %v", unknown, known, err)
	}
	for _, c := range []struct {
		name, password string
		want           bool
	}{{"ada", password, true}, {"ADA ", password, true}, {"ada", "", false}, {"eve", password, false}, {"eve", "nobody's password", false}, {"", "", false}} {
		if ok, err := a.check(t.Context(), c.name, c.password); ok != c.want || err != nil {
			t.Errorf("%q %q: %t, %v", c.name, c.password, ok, err)
		}
	}
}
