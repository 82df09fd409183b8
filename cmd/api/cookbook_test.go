package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// A chapter of docs/cookbook.md is a rules file and what it promises, by the bold words that each promise begins with.
type chapter struct {
	rules    string
	promises []string
}

func cookbook(t *testing.T, title string) chapter {
	t.Helper()
	text, err := os.ReadFile("../../docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, rules, _ := strings.Cut(section, "```yaml\n")
	rules, rest, ok := strings.Cut(rules, "```\n")
	if !ok {
		t.Fatalf("no rules file in %q", title)
	}
	c := chapter{rules: rules}
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(.+?)\.\*\* `).FindAllStringSubmatch(rest, -1) {
		c.promises = append(c.promises, m[1])
	}
	return c
}

// keeps tries every promise of the chapter, and nothing else.
func (c chapter) keeps(t *testing.T, tries map[string]func(*testing.T)) {
	t.Helper()
	if tried := slices.Sorted(maps.Keys(tries)); !slices.Equal(tried, slices.Sorted(slices.Values(c.promises))) {
		t.Fatalf("the chapter promises %q, and tried are %q", c.promises, tried)
	}
	for _, name := range c.promises {
		t.Run(name, tries[name])
	}
}

// decisions ask a running server.
type decisions struct{ internal string }

type decided struct {
	Admitted     bool   `json:"admitted"`
	Action       string `json:"action"`
	Reason       string `json:"reason"`
	Rule         string `json:"rule"`
	Limit        int    `json:"limit"`
	Remaining    int    `json:"remaining"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	Rules        []struct {
		Rule      string `json:"rule"`
		Limit     int    `json:"limit"`
		Remaining int    `json:"remaining"`
	} `json:"rules"`
}

// admit asks about one request.
func (d decisions) admit(t *testing.T, request string) (got decided) {
	t.Helper()
	a := servetest.Call("POST", d.internal+"/v1/admit", request, "X-Tidegate-Token", gatewayToken)
	if a.Status != http.StatusOK {
		t.Fatalf("%s: %v", request, a)
	}
	a.Into(t, &got)
	return got
}

// admits sends n requests, of which %d is the number of each if it is there, and returns how many of them were admitted, and a refusal.
func (d decisions) admits(t *testing.T, n int, request string) (admitted int, refused decided) {
	t.Helper()
	for first := 0; first < n; first += 100 {
		var all []string
		for i := first; i < min(n, first+100); i++ {
			all = append(all, strings.ReplaceAll(request, "%d", strconv.Itoa(i)))
		}
		a := servetest.Call("POST", d.internal+"/v1/admit/batch", `{"requests":[`+strings.Join(all, ",")+`]}`, "X-Tidegate-Token", gatewayToken)
		var got struct {
			Decisions []decided `json:"decisions"`
		}
		a.Into(t, &got)
		if len(got.Decisions) != len(all) {
			t.Fatalf("%v", a)
		}
		for _, one := range got.Decisions {
			if one.Admitted {
				admitted++
			} else {
				refused = one
			}
		}
	}
	return admitted, refused
}

// limits checks that so many of these requests are admitted in a minute, and that the rule refuses the rest. A limit above 128 is counted in two
// numbers, so that a few more may come in where a minute of the clock ends meanwhile, and who is refused may wait for a part of the next one.
func (d decisions) limits(t *testing.T, limit int, rule, request string) {
	t.Helper()
	more := limit / 10
	admitted, refused := d.admits(t, limit+more+1, request)
	if admitted < limit || admitted > limit+more || refused.Rule != rule || refused.Action != "deny" || refused.RetryAfterMS < 1 || refused.RetryAfterMS > 120_000 {
		t.Errorf("%s: %d admitted, want %d, then %+v", request, admitted, limit, refused)
	}
}

// forbids checks that the rule refuses the request for good.
func (d decisions) forbids(t *testing.T, rule, request string) {
	t.Helper()
	if got := d.admit(t, request); got.Admitted || got.Reason != "forbidden" || got.Rule != rule {
		t.Errorf("%s: %+v", request, got)
	}
}

func TestCookbookShop(t *testing.T) {
	c := cookbook(t, "A shop")
	p := startForGateways(t, c.rules)
	d := decisions{p.URL("internal")}
	token := []string{"X-Tidegate-Token", gatewayToken}
	call := func(method, path, body string) servetest.Answer {
		return servetest.Call(method, d.internal+path, body, token...)
	}
	sale := strings.Replace(servetest.Sale("shoe", 10_000), `"stock"`, `"quota_per_buyer":1000,"stock"`, 1)
	servetest.OpenSale(t, d.internal, "spring", sale, token...)
	keys := 0
	order := func(user string) servetest.Answer {
		keys++
		return servetest.Call("POST", p.URL("public")+"/v1/sales/spring/orders", `{"item":"shoe"}`,
			"X-User-ID", user, "Idempotency-Key", fmt.Sprintf("a-key-of-more-than-22-%d", keys))
	}
	// banned orders until the user is banned, and returns for how long.
	banned := func(t *testing.T, user string) time.Duration {
		t.Helper()
		a := servetest.Until(t, http.StatusForbidden, func() servetest.Answer { return order(user) })
		seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
		if err != nil || !strings.Contains(string(a.Body), `"reason":"banned"`) {
			t.Errorf("%v, Retry-After %q", a, a.Header.Get("Retry-After"))
		}
		return time.Duration(seconds) * time.Second
	}

	c.keeps(t, map[string]func(*testing.T){
		"Tiers": func(t *testing.T) {
			d.limits(t, 20, "search", `{"subject":{"ip":"192.0.2.1"},"attributes":{"route":"/search"}}`)
			d.limits(t, 60, "search", `{"subject":{"user":"rita","ip":"192.0.2.1"},"attributes":{"route":"/search"}}`)
			d.limits(t, 300, "search", `{"subject":{"user":"gus","ip":"192.0.2.1"},"attributes":{"route":"/search","tier":"gold"}}`)
		},
		"VIPs": func(t *testing.T) {
			for _, user := range []string{`"vera"},"attributes":{`, `"victor"},"attributes":{"tier":"gold",`} {
				if admitted, refused := d.admits(t, 400, `{"subject":{"user":`+user+`"route":"/search"}}`); admitted != 400 {
					t.Errorf("%s: %d, %+v", user, admitted, refused)
				}
			}
		},
		"Partners": func(t *testing.T) {
			for _, key := range []string{"acme-4f7b21c09de3", "umbrella-90c2e6a57b18"} {
				d.limits(t, 600, "partner", `{"subject":{"ip":"2001:db8:%d::1"},"attributes":{"route":"/api/stock","api-key":"`+key+`"}}`)
			}
		},
		"Unknown keys": func(t *testing.T) {
			d.forbids(t, "partners-only", `{"subject":{"ip":"192.0.2.1"},"attributes":{"route":"/api/stock","api-key":"acme"}}`)
			d.forbids(t, "partners-only", `{"subject":{"user":"sam"},"attributes":{"route":"/api"}}`)
		},
		"Rows": func(t *testing.T) {
			for tier, rows := range map[string]int{"registered": 10_000, "gold": 100_000} {
				export := `{"subject":{"user":"of-` + tier + `"},"attributes":{"route":"/export","tier":"` + tier + `","rows":%d}}`
				part := rows / 10
				if admitted, refused := d.admits(t, 10, strings.ReplaceAll(export, "%d", strconv.Itoa(part))); admitted != 10 {
					t.Errorf("%s: %d, %+v", tier, admitted, refused)
				}
				midnight := midnightInBerlin(t)
				got := d.admit(t, strings.ReplaceAll(export, "%d", "1"))
				wait := time.Duration(got.RetryAfterMS) * time.Millisecond
				if got.Admitted || got.Reason != "rate_limited" || wait > midnight+time.Second || wait < midnight-time.Minute {
					t.Errorf("%s: %v to midnight, %+v", tier, midnight, got)
				}
			}
		},
		"Too large an export": func(t *testing.T) {
			const export = `{"subject":{"user":"lars"},"attributes":{"route":"/export","rows":%d}}`
			if got := d.admit(t, strings.ReplaceAll(export, "%d", "10001")); got.Admitted || got.Reason != "cost_above_limit" || got.Remaining != 10_000 {
				t.Errorf("%+v", got)
			}
			if got := d.admit(t, strings.ReplaceAll(export, "%d", "10000")); !got.Admitted || got.Remaining != 0 {
				t.Errorf("%+v", got)
			}
		},
		"Exports of guests": func(t *testing.T) {
			d.forbids(t, "export-needs-a-user", `{"subject":{"ip":"192.0.2.1"},"attributes":{"route":"/export","rows":1}}`)
		},
		"Orders": func(t *testing.T) {
			for user, limit := range map[string]int{"olga": 5, "vera": 10} {
				for range limit {
					if a := order(user); a.Status != http.StatusAccepted {
						t.Errorf("%s: %v", user, a)
					}
				}
				got := d.admit(t, `{"mode":"check","subject":{"user":"`+user+`"},"attributes":{"route":"/v1/sales/spring/orders","method":"POST"}}`)
				if got.Admitted || len(got.Rules) != 2 || got.Rules[1].Limit != 4*limit || got.Rules[1].Remaining != 3*limit {
					t.Errorf("%s, in ten minutes: %+v", user, got)
				}
				if a := order(user); a.Status != http.StatusTooManyRequests {
					t.Errorf("%s, one more: %v", user, a)
				}
			}
		},
		"Bans": func(t *testing.T) {
			if got := banned(t, "bea"); got > 10*time.Minute || got < 9*time.Minute {
				t.Errorf("the first time for %v", got)
			}
			if got := d.admit(t, `{"subject":{"user":"bea"},"attributes":{"route":"/products"}}`); got.Action != "ban" || got.Reason != "banned" {
				t.Errorf("elsewhere: %+v", got)
			}
			if a := call("DELETE", "/v1/bans/user/bea", ""); a.Status != http.StatusNoContent {
				t.Fatal(a)
			}
			if got := banned(t, "bea"); got > 20*time.Minute || got < 19*time.Minute {
				t.Errorf("the second time for %v", got)
			}
		},
		"Staff": func(t *testing.T) {
			for range 60 {
				if a := order("sam"); a.Status == http.StatusForbidden {
					t.Fatal(a)
				}
			}
			banned(t, "bob") // whose refusals came later
			if a := order("sam"); a.Status != http.StatusTooManyRequests && a.Status != http.StatusAccepted {
				t.Error(a)
			}
			if a := call("PUT", "/v1/bans/ip/198.51.100.9", `{"for_ms":60000}`); a.Status != http.StatusConflict {
				t.Error(a)
			}
		},
		"One address": func(t *testing.T) {
			d.limits(t, 1000, "orders-per-address", `{"subject":{"user":"crowd-%d","ip":"203.0.113.5"},"attributes":{"route":"/v1/sales/spring/orders","method":"POST"}}`)
		},
		"Guessed passwords": func(t *testing.T) {
			attempt := func(name, ip, mode string) (decision string) {
				t.Helper()
				var got struct {
					Decision string `json:"decision"`
				}
				a := call("POST", "/v1/login/attempts", `{"name":"`+name+`","ip":"`+ip+`","mode":"`+mode+`"}`)
				a.Into(t, &got)
				return got.Decision
			}
			for i := range 3 {
				if got := attempt("ann", fmt.Sprintf("192.0.2.%d", i), "check"); got != "allow" {
					t.Errorf("after %d failures: %s", i, got)
				}
				attempt("ann", fmt.Sprintf("192.0.2.%d", i), "report")
			}
			if got := attempt("ann", "192.0.2.9", "reserve"); got != "challenge" {
				t.Errorf("after three failures: %s", got)
			}
			for i := range 30 {
				attempt(fmt.Sprintf("name-%d", i), "203.0.113.77", "report")
			}
			if got := attempt("somebody", "203.0.113.77", "reserve"); got != "deny" {
				t.Errorf("from an address with 30 failures: %s", got)
			}
			if a := call("GET", "/v1/bans", ""); !strings.Contains(string(a.Body), `"203.0.113.77"`) {
				t.Error(a)
			}
		},
		"Everything else": func(t *testing.T) {
			if admitted, refused := d.admits(t, 1000, `{"subject":{"ip":"192.0.2.200"},"attributes":{"route":"/products"}}`); admitted != 1000 {
				t.Errorf("%d, %+v", admitted, refused)
			}
		},
	})
}

// midnightInBerlin returns the time until the next day of the cookbook's rules.
func midnightInBerlin(t *testing.T) time.Duration {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().In(berlin)
	return time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, berlin).Sub(now)
}

func TestCookbookHeavyJobs(t *testing.T) {
	c := cookbook(t, "Heavy jobs")
	p := startForGateways(t, c.rules)
	d := decisions{p.URL("internal")}
	acquire := func(name, body string) (a servetest.Answer, release func()) {
		t.Helper()
		at := d.internal + "/v1/semaphores/" + name + "/permits"
		a = servetest.Call("POST", at, body, "X-Tidegate-Token", gatewayToken)
		var permit struct {
			ID string `json:"permit_id"`
		}
		a.Into(t, &permit)
		return a, func() { servetest.Call("DELETE", at+"/"+permit.ID, "", "X-Tidegate-Token", gatewayToken) }
	}
	granted := func(t *testing.T, name, body string) (release func()) {
		t.Helper()
		a, release := acquire(name, body)
		if a.Status != http.StatusCreated {
			t.Errorf("%s: %v", body, a)
		}
		return release
	}
	full := func(t *testing.T, name, body string) {
		t.Helper()
		if a, _ := acquire(name, body); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), `"reason":"at_capacity","position":1`) {
			t.Errorf("%s: %v", body, a)
		}
	}
	queue := func(t *testing.T, more string) decided {
		t.Helper()
		return d.admit(t, `{`+more+`"attributes":{"route":"/reports","method":"POST"}}`)
	}
	c.keeps(t, map[string]func(*testing.T){
		"Two at once": func(t *testing.T) {
			first, second := granted(t, "report", `{"holder":"a"}`), granted(t, "report", `{"holder":"b"}`)
			full(t, "report", `{"holder":"c"}`)
			third := make(chan func())
			go func() { third <- granted(t, "report", `{"holder":"c","wait_ms":30000}`) }()
			servetest.Until(t, http.StatusOK, func() servetest.Answer {
				a := servetest.Call("GET", d.internal+"/v1/semaphores/report", "", "X-Tidegate-Token", gatewayToken)
				if !strings.Contains(string(a.Body), `"waiting":1`) {
					a.Status = 0
				}
				return a
			})
			first()
			(<-third)()
			second()
		},
		"One for each customer": func(t *testing.T) {
			acme := granted(t, "report", `{"holder":"a","also":["tenant-acme"]}`)
			full(t, "report", `{"holder":"b","also":["tenant-acme"]}`)
			umbrella := granted(t, "report", `{"holder":"c","also":["tenant-umbrella"]}`)
			acme()
			umbrella()
		},
		"Crashes": func(t *testing.T) {
			granted(t, "thumbnail", `{"holder":"dies","weight":8}`) // and does not renew
			full(t, "thumbnail", `{"holder":"b"}`)
			granted(t, "thumbnail", `{"holder":"b","wait_ms":30000}`)()
		},
		"A daily allowance": func(t *testing.T) {
			for i := range 6 { // five, and the first of its hour
				if got := queue(t, `"subject":{"user":"ann"},`); !got.Admitted {
					t.Errorf("report %d: %+v", i+1, got)
				}
			}
			got := queue(t, `"subject":{"user":"ann"},`)
			want := min(time.Hour, midnightInBerlin(t)) // the next day has five of its own
			if wait := time.Duration(got.RetryAfterMS) * time.Millisecond; got.Admitted || wait < want-time.Minute || wait > want+time.Second {
				t.Errorf("want %v: %+v", want, got)
			}
		},
		"Failed jobs": func(t *testing.T) {
			for i := range 20 {
				id := fmt.Sprintf(`"request_id":"job-%d","subject":{"user":"bob"},`, i)
				if got := queue(t, id); !got.Admitted {
					t.Errorf("report %d: %+v", i+1, got)
				}
				queue(t, id+`"mode":"refund",`)
			}
			if got := queue(t, `"subject":{"user":"bob"},"mode":"check",`); got.Remaining != 6 {
				t.Errorf("%+v", got)
			}
		},
		"Jobs of guests": func(t *testing.T) {
			d.forbids(t, "reports-need-a-user", `{"subject":{"ip":"192.0.2.1"},"attributes":{"route":"/reports","method":"POST"}}`)
		},
	})
}

func TestCookbookAPI(t *testing.T) {
	c := cookbook(t, "An API behind nginx")
	p := startForGateways(t, c.rules)
	api := newShop(t)
	g := startNginx(t, addresses{authz: p.Addr("internal"), shop: api.addr})
	const key, other = "X-Api-Key: 4f7b21c09de3", "X-Api-Key: 90c2e6a57b18"
	wants := func(t *testing.T, status int, a servetest.Answer) {
		t.Helper()
		if a.Status != status {
			t.Errorf("want %d: %v", status, a)
		}
	}
	c.keeps(t, map[string]func(*testing.T){
		"With a key": func(t *testing.T) {
			for range 100 {
				wants(t, http.StatusOK, g.get(t, g.client(), "/v1/things", key))
			}
			refuses(t, g.get(t, g.client(), "/v1/things", key), `"with-key";r=0;t=`)
		},
		"Without a key": func(t *testing.T) {
			from := g.client()
			wants(t, http.StatusForbidden, g.curl(t, from, "/v1/things", "--json", `{}`))
			for range 10 {
				wants(t, http.StatusOK, g.get(t, from, "/v1/things"))
			}
			refuses(t, g.get(t, from, "/v1/things"), `"without-key";r=0;t=`)
			wants(t, http.StatusOK, g.get(t, g.client(), "/v1/things"))
			wants(t, http.StatusOK, g.curl(t, from, "/v1/things", "--json", `{}`, "--header", other))
		},
		"Wrong keys": func(t *testing.T) {
			for _, path := range []string{"/v1/things", "/", "/elsewhere"} {
				wants(t, http.StatusForbidden, g.get(t, g.client(), path, "X-Api-Key: guessed"))
			}
		},
		"Costly calls": func(t *testing.T) {
			for range 5 {
				a := g.get(t, g.client(), "/v1/search?q=x", other)
				if wants(t, http.StatusOK, a); !strings.Contains(a.Header.Get("RateLimit-Policy"), "with-key") || !strings.Contains(a.Header.Get("RateLimit-Policy"), "search") {
					t.Errorf("RateLimit-Policy: %s", a.Header.Get("RateLimit-Policy"))
				}
			}
			a := g.get(t, g.client(), "/v1/search?q=x", other)
			if refuses(t, a, `"search";r=0;t=`); !slices.Contains([]string{"1", "2"}, a.Header.Get("Retry-After")) {
				t.Errorf("Retry-After: %s", a.Header.Get("Retry-After"))
			}
		},
		"Spellings": func(t *testing.T) {
			from := g.client()
			for i, path := range []string{"/v1/things", "//v1/./things", "/v1/%74hings"} {
				a := g.curl(t, from, path, "--path-as-is")
				if got := a.Header.Get("RateLimit"); !strings.HasPrefix(got, fmt.Sprintf(`"without-key";r=%d;`, 9-i)) {
					t.Errorf("%s: RateLimit: %s", path, got)
				}
			}
		},
		"Health": func(t *testing.T) {
			from := g.client()
			for range 20 {
				if a := g.get(t, from, "/healthz"); a.Status != http.StatusOK || a.Header.Get("RateLimit") != "" {
					t.Errorf("%v %v", a.Header, a)
				}
			}
		},
		"Tidegate down": func(t *testing.T) {
			if err := p.Stop(); err != nil {
				t.Fatal(err)
			}
			asked := api.asked()
			if a := g.get(t, g.client(), "/v1/things", key); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1" || api.asked() != asked {
				t.Errorf("%v", a)
			}
		},
	})
}
