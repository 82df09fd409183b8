package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// The embedded server throttles logins. After a restart it has forgotten the failures, and knows the devices and the history.
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
