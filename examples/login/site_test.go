package main

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"github.com/tidegate/tidegate/internal/testenv"
)

// The pages do not reveal which names exist, however many attempts are made.
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
	a.body = challengeURLs.ReplaceAllStringFunc(a.body, func(at string) string { return strings.Repeat("*", len(at)) })
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
	if a.status != http.StatusOK || a.header.Get("Cache-Control") != "no-store" {
		v.t.Fatalf("%v", a)
	}
	return testenv.Solve(v.t, []byte(a.body))
}

// The internal listener would make a challenge for orders of this backend's own.
func TestAChallengeThatNobodyOffered(t *testing.T) {
	page, _ := start(t)
	for _, query := range []string{"purpose=login&for=me", "purpose=login", "purpose=login&for=", "purpose=order", "purpose=order&purpose=login", "for=me", ""} {
		if a := newVisitor(t, page).do("GET", "/captcha/challenge?"+query, ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %v", query, a)
		}
	}
}

func TestChallengesOfAnAddressAreLimited(t *testing.T) {
	v := fake(t, say(http.StatusOK, `{}`))
	for range perMinute {
		if a := v.do("GET", "/captcha/challenge?purpose=login&for=me", ""); a.status != http.StatusOK {
			t.Fatalf("%v", a)
		}
	}
	if a := v.do("GET", "/captcha/challenge?purpose=login&for=me", ""); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "60" {
		t.Errorf("one more: %v", a)
	}

	var m meter
	now := time.Now()
	for range perMinute {
		m.allow(netip.MustParseAddr("2001:db8::1"), now)
	}
	for ip, want := range map[string]bool{"2001:db8::2": false, "2001:db8:0:1::1": true, "192.0.2.1": true} {
		if got := m.allow(netip.MustParseAddr(ip), now); got != want {
			t.Errorf("%s: %t", ip, got)
		}
	}
	if !m.allow(netip.MustParseAddr("2001:db8::1"), now.Add(61*time.Second)) {
		t.Error("a minute later there are none")
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
	v := fake(t, func(http.ResponseWriter, *http.Request) { t.Error("Tidegate was asked, and counts") })
	for _, path := range []string{"/login", "/logout"} {
		for _, field := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
			if a := v.do("POST", path, "", field...); a.status != http.StatusForbidden || strings.Contains(a.body, "<form") {
				t.Errorf("%s, %v: %v", path, field, a)
			}
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
	}{{"ada", password, true}, {"ADA ", password, true}, {"ada", "", false}, {"eve", password, false}, {"eve", "password of no account", false}, {"", "", false}} {
		if ok, err := a.check(t.Context(), c.name, c.password); ok != c.want || err != nil {
			t.Errorf("%q %q: %t, %v", c.name, c.password, ok, err)
		}
	}
}
