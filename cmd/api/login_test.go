package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// The embedded server throttles logins. A restart loses the failures, but not the devices and the history.
func TestEmbeddedLogins(t *testing.T) {
	folder := t.TempDir()
	p := start(t, folder, io.Discard)
	type answer struct {
		AttemptID string `json:"attempt_id"`
		Decision  string
		Challenge struct{ URL string }
		Device    string
	}
	post := func(path, body string) (got answer) {
		t.Helper()
		a := servetest.Call("POST", p.URL("internal")+"/v1/login/attempts"+path, body)
		if a.Into(t, &got); a.Status != http.StatusOK {
			t.Fatal(a)
		}
		return got
	}
	attempt := func(decision, more string) answer {
		t.Helper()
		got := post("", fmt.Sprintf(`{"name":"ann","ip":"192.0.2.7"%s}`, more))
		if got.Decision != decision {
			t.Fatalf("%s: %+v, want %s", more, got, decision)
		}
		return got
	}
	for range 3 {
		post("/"+attempt("allow", "").AttemptID+"/outcome", `{"result":"failure"}`)
	}
	solved := fmt.Sprintf(`,"captcha":%q`, servetest.Solve(t, p.URL("public")+attempt("challenge", "").Challenge.URL))
	device := post("/"+attempt("allow", solved).AttemptID+"/outcome", `{"result":"success"}`).Device
	attempt("challenge", solved)
	holder := fmt.Sprintf(`,"device":%q`, device)
	attempt("allow", holder)
	history := func() {
		t.Helper()
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			a := servetest.Call("GET", p.URL("internal")+"/v1/login/history", "")
			if strings.Count(string(a.Body), `"rule":"login-name-3-in-1m-challenge"`) != 1 {
				a.Status = 0
			}
			return a
		})
	}
	history()
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}

	p = start(t, folder, io.Discard)
	history()
	for range 2 {
		attempt("allow", `,"mode":"report"`)
	}
	attempt("challenge", `,"mode":"report"`)
	attempt("allow", holder)
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// Guessers may type any name: a ban of an address applies to all names, and a ban of a user to every address.
func bansOfLogins(g *group) {
	t := g.T
	rules := writeFile(t, "rules.yaml", `version: 1
lists: {trusted: {values: [ann, 10.0.0.0/8]}}
rules: [{name: all, subject: [user], limit: 1000, window: 1s}]
bans: {allow: trusted}
`)
	p := startWith(t, map[string]string{"RULES_FILE": rules})
	for _, target := range []string{"ip/203.0.113.7", "network/198.51.100.0%2F24", "user/eve"} {
		if a := servetest.Call("PUT", p.URL("internal")+"/v1/bans/"+target, `{"for_ms":600000}`); a.Status != http.StatusOK {
			t.Fatal(a)
		}
	}
	for _, tt := range []struct{ name, ip, want string }{
		{"ann", "203.0.113.7", "deny"}, // her name is on the list, and whoever types it need not be her
		{"Ann ", "203.0.113.7", "deny"},
		{"ann", "::ffff:203.0.113.7", "deny"},
		{"ann", "198.51.100.9", "deny"},
		{"bob", "203.0.113.7", "deny"},
		{"ann", "203.0.113.8", "allow"},
		{"eve", "203.0.113.8", "deny"},
		{"EVE", "203.0.113.8", "deny"},
		{"eve", "10.1.2.3", "deny"}, // the address is on the list, and she is not
		{"bob", "10.1.2.3", "allow"},
	} {
		g.try(tt.name+" from "+tt.ip, func(t *testing.T) {
			a := servetest.Call("POST", p.URL("internal")+"/v1/login/attempts", fmt.Sprintf(`{"name":%q,"ip":%q}`, tt.name, tt.ip))
			var got struct{ Decision, Reason string }
			if a.Into(t, &got); got.Decision != tt.want || tt.want == "deny" && got.Reason != "banned" {
				t.Errorf("%v, want %s", a, tt.want)
			}
		})
	}
}

// A challenge that was easy when it was asked for does not open a login that asks for a hard one by now.
func TestAnEasySolutionOpensNoHardLogin(t *testing.T) {
	rules := writeFile(t, "rules.yaml", "version: 1\nlogin:\n  - {count: name, limit: 3, window: 1h, then: challenge, for: 1h}\n")
	p := startWith(t, map[string]string{"RULES_FILE": rules})
	type answer struct {
		Decision, Reason string
		Challenge        struct{ URL string }
	}
	attempt := func(ip, more string) (got answer) {
		t.Helper()
		a := servetest.Call("POST", p.URL("internal")+"/v1/login/attempts", fmt.Sprintf(`{"name":"ann","ip":%q%s}`, ip, more))
		if a.Into(t, &got); a.Status != http.StatusOK {
			t.Fatal(a)
		}
		return got
	}
	const home = "192.0.2.7"
	fail := func(from, to int) { // each at an address of its own
		for i := from; i < to; i++ {
			attempt(fmt.Sprintf("198.51.100.%d", i), `,"mode":"report"`)
		}
	}
	solve := func() string {
		return fmt.Sprintf(`,"captcha":%q`, servetest.Solve(t, p.URL("public")+attempt(home, "").Challenge.URL))
	}
	fail(0, 5)
	easy := solve()
	fail(5, 15)
	if got := attempt(home, easy); got.Decision != "challenge" || got.Reason != "captcha_refused" {
		t.Errorf("solved for 5 failures, of 15: %+v", got)
	}
	if got := attempt(home, solve()); got.Decision != "allow" {
		t.Errorf("solved for 15 failures: %+v", got)
	}
}
