package serve

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// capped is an API with semaphores, and the token of one caller.
type capped struct {
	*servetest.Program
	t     testing.TB
	token string
}

const rulesHead = "version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1s}]\n"

// cappedEnv returns an environment with tokens, which contain their holders' names, and a rules file.
func cappedEnv(t testing.TB, redis, semaphores string) (env func(string) string, rules string) {
	t.Helper()
	return cappedOver(t, environment(redis, databases.Postgres(t)), semaphores)
}

func cappedOver(t testing.TB, base func(string) string, semaphores string) (env func(string) string, rules string) {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	rules = filepath.Join(dir, "rules.yaml")
	for path, content := range map[string]string{
		tokens: "- {name: ada, role: operator, token: " + tokenOf("ada") + "}\n- {name: bob, role: admit, token: " + tokenOf("bob") + "}\n" +
			"- {name: eve, role: admit, token: " + tokenOf("eve") + "}\n- {name: prom, role: metrics, token: " + tokenOf("prom") + "}\n",
		rules: rulesHead + "semaphores: {" + semaphores + "}\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) string {
		switch name {
		case "TOKENS_FILE":
			return tokens
		case "RULES_FILE":
			return rules
		}
		return base(name)
	}, rules
}

// tokenOf returns a token of at least the minimum length.
func tokenOf(name string) string { return name + "-0123456789abcdef" }

func startCapped(t testing.TB, env func(string) string) capped {
	t.Helper()
	c := capped{startAPI(t, env), t, "ada"}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", c.URL("internal")+"/readyz", "") })
	return c
}

func (c capped) as(token string) capped {
	c.token = token
	return c
}

func (c capped) call(method, path, body string) servetest.Answer {
	return servetest.Once(method, c.URL("internal")+"/v1/semaphores"+path, body, "Authorization", "Bearer "+tokenOf(c.token))
}

// want makes a call and checks the status.
func (c capped) want(status int, method, path, body string) servetest.Answer {
	c.t.Helper()
	calls := 0
	call := func() servetest.Answer {
		calls++
		return c.call(method, path, body)
	}
	var a servetest.Answer
	if status == http.StatusServiceUnavailable {
		a = call()
	} else {
		a = servetest.Decided(call)
	}
	if method == http.MethodDelete && calls > 1 && a.Status == http.StatusNotFound {
		return a // the call before did it
	}
	if a.Status != status {
		c.t.Fatalf("%s %s %s: %v, want %d", method, path, body, a, status)
	}
	return a
}

type permit struct {
	ID           string `json:"permit_id"`
	Token        int64  `json:"fencing_token"`
	LeaseMS      int64  `json:"lease_ms"`
	RenewAfterMS int64  `json:"renew_after_ms"`
}

func (c capped) acquire(name, body string) (p permit) {
	c.t.Helper()
	a := c.want(http.StatusCreated, "POST", "/"+name+"/permits", body)
	a.Into(c.t, &p)
	if p.ID == "" || p.Token <= 0 || a.Header.Get("Location") != "/v1/semaphores/"+name+"/permits/"+p.ID {
		c.t.Fatalf("%v %v", a, a.Header)
	}
	return p
}

type standing struct {
	Name    string
	Limit   int
	LeaseMS int64 `json:"lease_ms"`
	Source  string
	SetBy   string `json:"set_by"`
	InUse   int    `json:"in_use"`
	Waiting int
	Holders []struct {
		PermitID     string `json:"permit_id"`
		Holder       string
		Weight       int
		FencingToken int64     `json:"fencing_token"`
		Since        time.Time `json:"since"`
		LeaseUntil   time.Time `json:"lease_until"`
	}
	Waiters []struct {
		Holder string
		Weight int
		Since  time.Time
	}
	Totals struct{ Granted, Waited int64 }
}

func (c capped) standing(name string) (s standing) {
	c.t.Helper()
	servetest.Until(c.t, http.StatusOK, func() servetest.Answer { return c.call("GET", "/"+name, "") }).Into(c.t, &s)
	return s
}

// until waits until the semaphore has the expected state.
func (c capped) until(name string, is func(standing) bool) standing {
	c.t.Helper()
	var s standing
	servetest.Until(c.t, http.StatusOK, func() servetest.Answer {
		if s = c.standing(name); !is(s) {
			return servetest.Answer{}
		}
		return servetest.Answer{Status: http.StatusOK}
	})
	return s
}

type refusal struct {
	Type, Reason, Detail string
	Position             int
	Errors               []struct{ Location, Message string }
}

func problemIn(t testing.TB, a servetest.Answer) (r refusal) {
	t.Helper()
	a.Into(t, &r)
	return r
}

// TestPermitOverHTTP: a permit is acquired, listed, renewed, released, and then over.
func TestPermitOverHTTP(t *testing.T) {
	t.Parallel()
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 2, lease: 9s}")
	c := startCapped(t, env)
	bob := c.as("bob")

	first := bob.acquire("report", `{"holder":"bob-1"}`)
	if first.LeaseMS != 9000 || first.RenewAfterMS != 3000 {
		t.Errorf("%+v", first)
	}
	second := bob.acquire("report", `{"holder":"bob-2"}`)
	if second.Token <= first.Token {
		t.Errorf("tokens %d and %d should grow", first.Token, second.Token)
	}
	full := bob.want(http.StatusServiceUnavailable, "POST", "/report/permits", `{"holder":"bob-3"}`)
	p := problemIn(t, full)
	if p.Reason != "at_capacity" || p.Position != 1 || p.Type != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" {
		t.Errorf("%v", full)
	}
	if after := full.Header.Get("Retry-After"); after == "" || after == "0" {
		t.Errorf("Retry-After %q", after)
	}

	s := c.standing("report")
	if s.Limit != 2 || s.LeaseMS != 9000 || s.Source != "file" || s.InUse != 2 || s.Waiting != 0 || len(s.Holders) != 2 || s.Waiters == nil || s.Totals.Granted != 2 {
		t.Errorf("%+v", s)
	}
	for _, h := range s.Holders {
		if h.PermitID == first.ID || h.PermitID == second.ID || h.PermitID == "" || h.FencingToken != first.Token && h.FencingToken != second.Token || !strings.HasPrefix(h.Holder, "bob-") || h.Weight != 1 || h.LeaseUntil.Sub(h.Since) < 8*time.Second {
			t.Errorf("%+v", h)
		}
	}
	if s := bob.standing("report"); s.Holders[0].PermitID != "" || s.Holders[0].FencingToken == 0 {
		t.Errorf("a service sees the secrets of others: %+v", s.Holders)
	}

	var renewed permit
	bob.want(http.StatusOK, "PUT", "/report/permits/"+first.ID, "").Into(t, &renewed)
	if renewed.ID != first.ID || renewed.LeaseMS != 9000 || renewed.RenewAfterMS != 3000 {
		t.Errorf("%+v", renewed)
	}
	bob.want(http.StatusNoContent, "DELETE", "/report/permits/"+first.ID, "")
	bob.want(http.StatusNoContent, "DELETE", "/report/permits/"+first.ID, "")
	lost := bob.want(http.StatusGone, "PUT", "/report/permits/"+first.ID, "")
	if p := problemIn(t, lost); p.Type != "/problems/permit-lost" || p.Reason != "permit_lost" {
		t.Errorf("%v", lost)
	}
	c.want(http.StatusNoContent, "DELETE", "/report/permits/"+second.ID, "") // another holder's: the operator has the id from the list
	if s := c.standing("report"); s.InUse != 0 || len(s.Holders) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestDefinitionsOverHTTP: operators' definitions override the file's, at once and in all processes, and evict no holder.
func TestDefinitionsOverHTTP(t *testing.T) {
	t.Parallel()
	env, rules := cappedEnv(t, testenv.Redis(t), "report: {limit: 1}")
	one, two := startCapped(t, env), startCapped(t, env)
	held := one.acquire("report", `{"holder":"a"}`)

	one.want(http.StatusOK, "PUT", "/report", `{"limit":3,"lease_ms":60000}`) // it is held until the end
	if s := two.standing("report"); s.Limit != 3 || s.LeaseMS != 60000 || s.Source != "overridden" || s.SetBy != "ada" {
		t.Errorf("%+v", s)
	}
	two.acquire("report", `{"holder":"b","weight":2}`)
	one.want(http.StatusOK, "PUT", "/report", `{"limit":0}`)
	if s := two.standing("report"); s.Limit != 0 || s.LeaseMS != 15000 || s.InUse != 3 {
		t.Errorf("%+v", s)
	}
	one.want(http.StatusOK, "PUT", "/report/permits/"+held.ID, "")

	if err := os.WriteFile(rules, []byte(rulesHead+"semaphores: {report: {limit: 5}, more: {limit: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload := servetest.Call("POST", one.URL("internal")+"/v1/rules/reload", "", "Authorization", "Bearer "+tokenOf("ada"))
	if reload.Status != http.StatusOK {
		t.Fatal(reload)
	}
	if s := two.standing("more"); s.Limit != 1 || s.Source != "file" {
		t.Errorf("%+v", s)
	}
	if s := two.standing("report"); s.Limit != 0 || s.Source != "overridden" {
		t.Errorf("%+v", s)
	}
	var s standing
	two.want(http.StatusOK, "DELETE", "/report", "").Into(t, &s)
	if s.Limit != 5 || s.Source != "file" {
		t.Errorf("%+v", s)
	}

	one.want(http.StatusNotFound, "GET", "/shop:own", "")
	one.want(http.StatusNotFound, "POST", "/shop:own/permits", `{"holder":"a"}`)
	one.want(http.StatusOK, "PUT", "/shop:own", `{"limit":1}`)
	if s := two.standing("shop:own"); s.Source != "api" {
		t.Errorf("%+v", s)
	}
	var list struct {
		Items []standing
		Next  *string `json:"next_cursor"`
	}
	two.want(http.StatusOK, "GET", "", "").Into(t, &list)
	if len(list.Items) != 3 || list.Items[0].Name != "more" || list.Items[1].InUse != 3 || list.Items[2].Name != "shop:own" || list.Next != nil {
		t.Errorf("%+v", list)
	}
	two.want(http.StatusOK, "GET", "?limit=2", "").Into(t, &list)
	if len(list.Items) != 2 || list.Next == nil {
		t.Fatalf("%+v", list)
	}
	two.want(http.StatusOK, "GET", "?limit=2&cursor="+*list.Next, "").Into(t, &list)
	if len(list.Items) != 1 || list.Items[0].Name != "shop:own" || list.Next != nil {
		t.Errorf("%+v", list)
	}
	own := one.acquire("shop:own", `{"holder":"a"}`)
	two.want(http.StatusOK, "DELETE", "/shop:own", "").Into(t, &s)
	for range 2 { // a holder is listed as long as it holds the permit
		if s.Source != "none" || s.Limit != 0 || s.InUse != 1 || len(s.Holders) != 1 || s.Holders[0].FencingToken != own.Token {
			t.Errorf("%+v", s)
		}
		s = one.standing("shop:own")
	}
	one.want(http.StatusOK, "PUT", "/shop:own/permits/"+own.ID, "")
	one.want(http.StatusNoContent, "DELETE", "/shop:own/permits/"+own.ID, "")
	one.want(http.StatusNotFound, "GET", "/shop:own", "")
	p := problemIn(t, one.want(http.StatusNotFound, "POST", "/shop:own/permits", `{"holder":"a"}`))
	if p.Reason != "unknown_semaphore" {
		t.Errorf("%+v", p)
	}
	one.want(http.StatusNotFound, "DELETE", "/shop:own", "")

	metrics := servetest.Call("GET", two.URL("internal")+"/metrics", "", "Authorization", "Bearer "+tokenOf("prom"))
	for _, line := range []string{`tidegate_semaphore_limit{semaphore="report"} 5`, `tidegate_semaphore_in_use{semaphore="report"} 3`, `tidegate_semaphore_granted_total{semaphore="report"} 2`} {
		if !bytes.Contains(metrics.Body, []byte(line)) {
			t.Errorf("metrics lack %s:\n%s", line, regexp.MustCompile(`(?m)^tidegate_sem.*$`).FindAll(metrics.Body, -1))
		}
	}
}

// TestRolesOfSemaphores: operators define semaphores, services use permits, and other roles may do neither.
func TestRolesOfSemaphores(t *testing.T) {
	t.Parallel()
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 1}")
	c := startCapped(t, env)
	for _, call := range []struct {
		method, path, body string
		operator           bool
	}{
		{"PUT", "/report", `{"limit":1}`, true},
		{"DELETE", "/report", "", true},
		{"GET", "", "", false},
		{"GET", "/report", "", false},
		{"POST", "/none/permits", `{"holder":"x"}`, false},
		{"PUT", "/none/permits/x", "", false},
		{"DELETE", "/none/permits/x", "", false},
	} {
		for token, want := range map[string]bool{"bob": !call.operator, "ada": true, "prom": false} {
			if a := c.as(token).call(call.method, call.path, call.body); (a.Status == http.StatusForbidden) == want || a.Status == 0 {
				t.Errorf("%s %s by %s: %v", call.method, call.path, token, a)
			}
		}
		if a := c.as("wrong").call(call.method, call.path, call.body); a.Status != http.StatusUnauthorized {
			t.Errorf("%s %s: %v", call.method, call.path, a)
		}
		if a := servetest.Call(call.method, c.URL("public")+"/v1/semaphores"+call.path, call.body); a.Status != http.StatusNotFound {
			t.Errorf("%s %s is public: %v", call.method, call.path, a)
		}
	}
}

// TestInvalidPermitRequests: errors name the location and what would be right.
func TestInvalidPermitRequests(t *testing.T) {
	t.Parallel()
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 2}, small: {limit: 1}, \"shop:x\": {limit: 2}")
	c := startCapped(t, env)
	const permits = "/report/permits"
	for _, tt := range []struct{ method, path, body, location, message string }{
		{"POST", permits, `{}`, "body", "holder"},
		{"POST", permits, `{"holder":""}`, "body.holder", "length"},
		{"POST", permits, `{"holder":"a\nb"}`, "body.holder", "control characters"},
		{"POST", permits, `{"holder":"a\u007f"}`, "body.holder", "control characters"},
		{"POST", permits, `{"holder":"` + strings.Repeat("é", 256) + `"}`, "body.holder", "length"},
		{"POST", permits, `{"holder":"a","weight":0}`, "body.weight", ">= 1"},
		{"POST", permits, `{"holder":"a","weight":3}`, "body.weight", "at most the limit of report"},
		{"POST", permits, `{"holder":"a","weight":2,"also":["small"]}`, "body.weight", "at most the limit of small"},
		{"POST", permits, `{"holder":"a","wait_ms":-1}`, "body.wait_ms", ">= 0"},
		{"POST", permits, `{"holder":"a","wait_ms":30001}`, "body.wait_ms", "<= 30000"},
		{"POST", permits, `{"holder":"a","also":["shop:x"]}`, "body", "same hash tag"},
		{"POST", permits, `{"holder":"a","also":["report"]}`, "body", "twice"},
		{"POST", permits, `{"holder":"a","also":["small","Shop"]}`, "body.also[1]", "1 to 64"},
		{"POST", permits, `{"holder":"a","colour":1}`, "body.colour", "unexpected"},
		{"DELETE", permits + "/nonsense", "", "path.id", "must be the id of a permit"},
		{"PUT", "/Report", `{"limit":1}`, "path.name", "1 to 64"},
		{"PUT", "/report", `{"limit":-1}`, "body.limit", ">= 0"},
		{"PUT", "/report", `{"limit":1,"lease_ms":999}`, "body.lease_ms", ">= 1000"},
		{"PUT", "/report", `{}`, "body", "limit"},
	} {
		p := problemIn(t, c.want(http.StatusUnprocessableEntity, tt.method, tt.path, tt.body))
		if len(p.Errors) != 1 || p.Errors[0].Location != tt.location || !strings.Contains(p.Errors[0].Message, tt.message) {
			t.Errorf("%s %s %s: %+v", tt.method, tt.path, tt.body, p)
		}
	}
	for _, unknown := range [][3]string{
		{"POST", permits, `{"holder":"a","also":["none"]}`},
		{"POST", "/No_Such/permits", `{"holder":"a"}`},
		{"GET", "/No_Such", ""},
		{"DELETE", "/No_Such", ""},
		{"PUT", "/No_Such/permits/x", ""},
	} {
		if p := problemIn(t, c.want(http.StatusNotFound, unknown[0], unknown[1], unknown[2])); p.Reason != "unknown_semaphore" {
			t.Errorf("%v: %+v", unknown, p)
		}
	}
	if p := problemIn(t, c.want(http.StatusGone, "PUT", permits+"/nonsense", "")); p.Reason != "permit_lost" {
		t.Errorf("%+v", p)
	}
	longest := c.acquire("report", `{"holder":"`+strings.Repeat("é", 255)+`"}`)
	c.want(http.StatusNoContent, "DELETE", permits+"/"+longest.ID, "")
	if s := c.standing("report"); s.InUse != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}
