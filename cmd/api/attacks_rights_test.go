package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// What a role may not do it may not, however a token is shown; and no page of another site uses the session of whoever has the page open.
func (at *target) rolesAndCSRF(g *group) {
	const (
		forbidden = http.StatusForbidden
		unknown   = http.StatusUnauthorized
		stored    = `{"limit":1}`
	)
	signIn := func(fields ...string) attempt {
		return attempt{token: noToken, method: "POST", path: "/session", body: fmt.Sprintf(`{"token":%q}`, operatorToken), fields: fields}
	}
	begun := at.send(g, signIn())
	cookie, _, _ := strings.Cut(begun.Header.Get("Set-Cookie"), ";")
	if begun.Status != http.StatusOK || !strings.Contains(begun.Header.Get("Set-Cookie"), "; HttpOnly; SameSite=Strict") {
		g.Fatal(begun, begun.Header)
	}
	session := func(name, method, path, body string, want int, fields ...string) attempt {
		return attempt{name: name, token: noToken, method: method, path: path, body: body, want: want, fields: append([]string{"Cookie", cookie}, fields...)}
	}
	own := "http://" + at.Addr("internal")
	at.try(g,
		session("its own page", "PUT", "/v1/semaphores/page", stored, 200, "Origin", own, "Sec-Fetch-Site", "same-origin"),
		session("a change by a foreign origin", "PUT", "/v1/semaphores/page", stored, forbidden, "Origin", "https://evil.example"),
		session("a change by no origin", "PUT", "/v1/semaphores/page", stored, forbidden, "Origin", "null"),
		session("a change by another port", "DELETE", "/v1/semaphores/page", "", forbidden, "Origin", "http://127.0.0.1:1"),
		session("a change across sites", "PUT", "/v1/semaphores/page", stored, forbidden, "Sec-Fetch-Site", "cross-site"),
		session("a change by a subdomain", "PUT", "/v1/semaphores/page", stored, forbidden, "Sec-Fetch-Site", "same-site"),
		session("a list across sites", "GET", "/v1/explain?user=x", "", forbidden, "Sec-Fetch-Site", "cross-site"),
		session("a permit across sites", "GET", "/v1/sales/spring/orders.csv", "", forbidden, "Sec-Fetch-Site", "cross-site"),
		session("a wait across sites", "GET", "/v1/order-events?wait_ms=30000", "", forbidden, "Sec-Fetch-Site", "cross-site"),
		session("a charge across sites", "GET", "/v1/authz", "", unknown, "Sec-Fetch-Site", "cross-site"),
		session("the stream across sites", "GET", "/events", "", forbidden, "Sec-Fetch-Site", "cross-site"),
		session("the end of the session across sites", "DELETE", "/session", "", forbidden, "Origin", "https://evil.example"),
		session("another host's name", "GET", "/v1/rules", "", forbidden, "Host", "evil.example"),
	)
	sealed := session("a changed cookie", "GET", "/v1/rules", "", unknown)
	sealed.fields[1] = cookie[:len(cookie)-4] + "AAAA"
	at.try(g, sealed)
	named := func(a attempt, name string, want int) attempt { a.name, a.want = name, want; return a }
	wrong := named(signIn(), "a sign-in with a wrong token", unknown)
	wrong.body = `{"token":"token-of-somebody-else"}`
	service := named(signIn(), "a sign-in of a service", forbidden)
	service.body = fmt.Sprintf(`{"token":%q}`, serviceToken)
	at.try(g, wrong, service,
		named(signIn("Origin", "https://evil.example"), "a sign-in by a foreign page", forbidden),
		named(signIn("Content-Type", "text/plain"), "a sign-in by a form", http.StatusUnsupportedMediaType),
	)

	shown := func(name, path string, want int, fields ...string) attempt {
		return attempt{name: name, token: noToken, path: path, want: want, fields: fields}
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("x:"+operatorToken))
	at.try(g,
		shown("no token", "/v1/rules", unknown),
		shown("a token in the query", "/v1/rules?token="+operatorToken, unknown),
		shown("a token as a cookie", "/v1/rules", unknown, "Cookie", "X-Tidegate-Token="+operatorToken),
		shown("a password outside authz", "/v1/rules", unknown, "Authorization", basic),
		shown("a password across sites", "/v1/authz", forbidden, "Authorization", basic, "Sec-Fetch-Site", "cross-site"),
		shown("a password of a foreign origin", "/koala/dump/policy", forbidden, "Authorization", basic, "Origin", "https://evil.example"),
		shown("a token without its end", "/v1/rules", unknown, "X-Tidegate-Token", operatorToken[:len(operatorToken)-1]),
		shown("a token and more", "/v1/rules", unknown, "X-Tidegate-Token", operatorToken+"x"),
		shown("a token in capitals", "/v1/rules", unknown, "X-Tidegate-Token", strings.ToUpper(operatorToken)),
		shown("a token of a header, across sites", "/v1/rules", http.StatusOK, "Authorization", "Bearer "+operatorToken, "Sec-Fetch-Site", "cross-site"),
	)

	by := func(name, token, method, path, body string, fields ...string) attempt {
		return attempt{name: name, token: token, method: method, path: path, body: body, want: forbidden, says: "forbidden", fields: fields}
	}
	at.try(g,
		by("a scraper reads rules", scraperToken, "GET", "/v1/rules", ""),
		by("a scraper orders", scraperToken, "POST", "/v1/sales/spring/orders", `{"item":"shoe"}`, "X-User-ID", "x"),
		by("a scraper has a challenge", scraperToken, "GET", "/v1/captcha/challenge?purpose=order", ""),
		by("a viewer pauses", viewerToken, "POST", "/v1/sales/spring/pause", ""),
		by("a viewer scrapes", viewerToken, "GET", "/metrics", ""),
		by("a viewer takes a permit", viewerToken, "POST", "/v1/semaphores/other/permits", `{"holder":"x"}`),
		by("a viewer charges", viewerToken, "POST", "/v1/admit", `{}`),
		by("a service bans", serviceToken, "PUT", "/v1/bans/user/x", `{"for_ms":1}`),
		by("a service reads the audit", serviceToken, "GET", "/v1/audit", ""),
		by("a service defines a semaphore", serviceToken, "PUT", "/v1/semaphores/other", `{"limit":9}`),
		by("a service reads what became of a login", serviceToken, "GET", "/v1/login/subjects?name=x", ""),
		by("a service lets a login in", serviceToken, "DELETE", "/v1/login/subjects?name=x", ""),
	)
	at.try(g, attempt{
		name: "another method by a field", token: viewerToken, method: "POST", path: "/v1/sales/spring", want: http.StatusMethodNotAllowed, fields: []string{"X-HTTP-Method-Override", "PUT"},
	})
	g.try("a frame around the page", func(t *testing.T) {
		if a := at.send(t, shown("", "/", 0)); !strings.Contains(a.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%v", a.Header)
		}
	})
	g.try("a session that was ended", func(t *testing.T) {
		if a := at.send(t, session("", "DELETE", "/session", "", 0)); a.Status != http.StatusNoContent {
			t.Fatal(a)
		}
		if a := at.send(t, session("", "GET", "/v1/rules", "", 0)); a.Status != unknown {
			t.Error(a)
		}
	})
}

// The firewall program only gets addresses and networks that may be banned.
func (at *target) banScript(g *group) {
	ban := func(target, body string) servetest.Answer {
		return at.send(g, attempt{method: "PUT", path: "/v1/bans/" + target, body: body})
	}
	mark := at.bans + "-pwned"
	never := map[string]string{ // what the program must not be called with, by what was to be banned
		"ip/127.0.0.1": "127.0.0.1", "ip/::1": "::1", "network/127.0.0.0%2F8": "127.0.0.0", "ip/198.51.100.9": "198.51.100.9", "network/198.51.100.0%2F25": "198.51.100.0/25",
		"network/198.0.0.0%2F8": "198.0.0.0/8", "user/203.0.113.31": "203.0.113.31", "device/203.0.113.32": "203.0.113.32",
		"ip/203.0.113.33%3Breboot": "203.0.113.33", "ip/203.0.113.34%0Areboot": "203.0.113.34", "ip/$(reboot)": "reboot", "ip/-f": "-f",
	}
	for target := range never {
		ban(target, `{"for_ms":3600000}`)
	}
	reason := fmt.Sprintf(`{"for_ms":3600000,"reason":"'; touch %s; $(touch %s) #"}`, mark, mark)
	if a := ban("ip/203.0.113.35", reason); a.Status != http.StatusOK {
		g.Fatal(a)
	}
	var calls string
	servetest.Until(g, http.StatusOK, func() servetest.Answer {
		content, err := os.ReadFile(at.bans)
		if calls = string(content); strings.Contains(calls, " ban 203.0.113.35 ") {
			return servetest.Answer{Status: http.StatusOK}
		}
		return servetest.Answer{Body: content, Err: err}
	})
	for target, word := range never {
		g.try(target, func(t *testing.T) {
			if strings.Contains(calls, " "+word) {
				t.Errorf("%s", calls)
			}
		})
	}
	g.try("a reason that is a command", func(t *testing.T) {
		if _, err := os.Stat(mark); err == nil || strings.Contains(calls, "touch") {
			t.Errorf("%v, %s", err, calls)
		}
	})
}

func (at *target) banAPI(g *group) {
	put := func(want int, target, body string) attempt {
		name := target + " " + body
		return attempt{name: name[:min(len(name), 80)], method: "PUT", path: "/v1/bans/" + target, body: body, want: want}
	}
	const hour = `{"for_ms":3600000}`
	for _, target := range []string{"ip/127.0.0.1", "ip/::1", "ip/::ffff:127.0.0.1", "network/127.0.0.0%2F8", "ip/198.51.100.7", "ip/::ffff:198.51.100.7", "network/198.51.100.0%2F25", "user/stella"} {
		at.try(g, put(http.StatusConflict, target, hour))
	}
	for _, target := range []string{
		"network/0.0.0.0%2F0", "network/::%2F0", "network/10.0.0.0%2F7", "network/203.0.113.20", "network/203.0.113.20%2F33", "ip/203.0.113.20%2F32", "ip/203.0.113.020",
		"ip/203.0.113.20%3Breboot", "ip/203.0.113.20%0Areboot", "ip/$(reboot)", "ip/-f", "everybody/x", "caller/x", "user/" + strings.Repeat("u", 300), "user/a%00b",
	} {
		at.try(g, put(http.StatusUnprocessableEntity, target, hour))
	}
	for _, body := range []string{
		`{}`, `{"for_ms":0}`, `{"for_ms":-1}`, `{"for_ms":9223372036854775807}`, `{"for_ms":1e99}`, `{"for_ms":"60000"}`, `{"for_ms":60000,"kind":"user"}`,
		`{"for_ms":60000,"reason":"a\nb"}`, `{"for_ms":60000,"reason":"` + strings.Repeat("r", 2000) + `"}`, `[]`, `null`,
	} {
		at.try(g, put(http.StatusUnprocessableEntity, "ip/203.0.113.36", body))
	}
	at.try(g,
		put(http.StatusNotFound, "user/", hour),
		attempt{name: "lift what is not banned", method: "DELETE", path: "/v1/bans/ip/203.0.113.37", want: http.StatusNotFound},
		attempt{name: "none of these was banned", method: "POST", path: "/v1/admit", body: `{"subject":{"ip":"203.0.113.36"}}`, want: http.StatusOK, says: `"admitted":true`},
	)
}

// A permit of one semaphore is invalid for another, and permits cannot be forged.
func (at *target) permits(g *group) {
	const base = "/v1/semaphores/report/permits"
	acquired := at.send(g, attempt{method: "POST", path: base, body: `{"holder":"a"}`})
	var permit struct {
		ID string `json:"permit_id"`
	}
	if acquired.Into(g, &permit); acquired.Status != http.StatusCreated {
		g.Fatal(acquired)
	}
	const invalid, lost = http.StatusUnprocessableEntity, http.StatusGone
	acquire := func(body string, want int) attempt {
		return attempt{name: "acquire " + body[:min(len(body), 60)], method: "POST", path: base, body: body, want: want}
	}
	for _, body := range []string{
		`{}`, `{"holder":""}`, `{"holder":"a","weight":0}`, `{"holder":"a","weight":-1}`, `{"holder":"a","weight":2}`, `{"holder":"a","weight":1e9}`, `{"holder":"a","wait_ms":-1}`,
		`{"holder":"a","wait_ms":1e12}`, `{"holder":"a\u0000"}`, `{"holder":"a","also":["report"]}`, `{"holder":"a","permit_id":"x"}`, `{"holder":"` + strings.Repeat("h", 300) + `"}`,
	} {
		at.try(g, acquire(body, invalid))
	}
	of := func(name, method, semaphore, id string, want int) attempt {
		return attempt{name: name, token: serviceToken, method: method, path: "/v1/semaphores/" + semaphore + "/permits/" + id, want: want}
	}
	forged := permit.ID[:len(permit.ID)-4] + "AAAA"
	at.try(g,
		acquire(`{"holder":"a","also":["none"]}`, http.StatusNotFound),
		acquire(`{"holder":"b"}`, http.StatusServiceUnavailable),
		attempt{name: "a name that would be another key", method: "POST", path: "/v1/semaphores/a%7Bb%7D/permits", body: `{"holder":"a"}`, want: http.StatusNotFound},
		attempt{name: "by the public listener", public: true, method: "POST", path: base, body: `{"holder":"a"}`, want: http.StatusNotFound},
		of("renew a forged one", "PUT", "report", forged, lost),
		of("renew nonsense", "PUT", "report", "x", lost),
		of("renew at another semaphore", "PUT", "other", permit.ID, lost),
		of("release a forged one", "DELETE", "report", forged, invalid),
		of("release nonsense", "DELETE", "report", "x", invalid),
		of("release at another semaphore", "DELETE", "other", permit.ID, invalid),
		of("it is still held", "PUT", "report", permit.ID, http.StatusOK),
		of("release", "DELETE", "report", permit.ID, http.StatusNoContent),
		of("release again", "DELETE", "report", permit.ID, http.StatusNoContent),
		of("renew what was released", "PUT", "report", permit.ID, lost),
	)
	for _, body := range []string{`{"limit":-1}`, `{"limit":1e10}`, `{"limit":1,"lease_ms":0}`, `{"limit":1,"lease_ms":1e15}`} {
		at.try(g, attempt{name: "define " + body, method: "PUT", path: "/v1/semaphores/report", body: body, want: invalid})
	}
}

// Slow and disconnecting clients hold a connection for seconds at most and do not delay others.
func (at *target) slowPeers(g *group) {
	const order = "POST /v1/sales/spring/orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nX-User-ID: slow\r\n"
	alive := func(t *testing.T) {
		t.Helper()
		if a := at.send(t, attempt{public: true, path: "/livez"}); a.Status != http.StatusOK {
			t.Error(a)
		}
	}
	for _, tt := range []struct {
		name, address, begun string
		drip                 string // sent again and again
		want                 []int
	}{
		{name: "nothing but a connection", address: at.Addr("public")},
		{name: "half a request line", address: at.Addr("public"), begun: "GET /liv"},
		{name: "half a header", address: at.Addr("public"), begun: "GET /livez HTTP/1.1\r\nHost: a\r\n"},
		{name: "half a header, internal", address: at.Addr("internal"), begun: "GET /livez HTTP/1.1\r\nHost: a\r\n"},
		{name: "a header without end", address: at.Addr("public"), begun: "GET /livez HTTP/1.1\r\nHost: a\r\n", drip: "X-A: b\r\n"},
		{name: "half a body", address: at.Addr("public"), begun: order + "Content-Length: 100\r\n\r\n{", want: []int{http.StatusRequestTimeout}},
		{name: "half a body, internal", address: at.Addr("internal"), begun: "POST /session HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", want: []int{http.StatusRequestTimeout}},
		{name: "a body in drips", address: at.Addr("public"), begun: order + "Content-Length: 1000\r\n\r\n", drip: " ", want: []int{http.StatusRequestTimeout}},
		{name: "chunks without end", address: at.Addr("public"), begun: order + "Transfer-Encoding: chunked\r\n\r\n", drip: "1\r\n \r\n", want: []int{http.StatusRequestTimeout}},
	} {
		g.try(tt.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, tt.address)
			c.say(tt.begun)
			if tt.drip != "" {
				go func() {
					for c.say(tt.drip) && t.Context().Err() == nil {
						<-time.After(100 * time.Millisecond)
					}
				}()
			}
			alive(t)
			if got := c.statuses(); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("answered %v, want %v", got, tt.want)
			}
		})
	}
	g.try("a crowd that says nothing", func(t *testing.T) {
		t.Parallel()
		for range 200 {
			dial(t, at.Addr("public"))
		}
		alive(t)
	})
	g.try("hanging up amid a body", func(t *testing.T) {
		t.Parallel()
		for range 50 {
			c := dial(t, at.Addr("public"))
			c.say(order + "Content-Length: 100\r\n\r\n{")
			c.Close()
		}
		alive(t)
	})
	g.try("hanging up amid a wait", func(t *testing.T) {
		t.Parallel()
		for range 50 {
			c := dial(t, at.Addr("internal"))
			c.say("GET /v1/order-events?after=999999&wait_ms=30000 HTTP/1.1\r\nHost: a\r\nX-Tidegate-Token: " + operatorToken + "\r\n\r\n")
			c.Close()
		}
		alive(t)
	})
}
