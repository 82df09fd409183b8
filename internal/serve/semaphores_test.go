package serve

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// capped is an API with semaphores, as one of its callers sees it.
type capped struct {
	*servetest.Program
	t     testing.TB
	token string
}

const rulesHead = "version: 1\nrules: [{name: r, subject: user, limit: 1, window: 1s}]\n"

// cappedEnv is an environment with tokens, which are the names of their holders, and a rules file.
func cappedEnv(t testing.TB, redis, semaphores string) (env func(string) string, rules string) {
	t.Helper()
	return cappedOver(t, environment(redis, testenv.Postgres(t)), semaphores)
}

func cappedOver(t testing.TB, base func(string) string, semaphores string) (env func(string) string, rules string) {
	t.Helper()
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.yaml")
	rules = filepath.Join(dir, "rules.yaml")
	for path, content := range map[string]string{
		tokens: "- {name: ada, role: operator, token: ada}\n- {name: bob, role: admit, token: bob}\n- {name: eve, role: admit, token: eve}\n- {name: prom, role: metrics, token: prom}\n",
		rules:  rulesHead + "semaphores: {" + semaphores + "}\n",
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
	return servetest.Call(method, c.URL("internal")+"/v1/semaphores"+path, body, "Authorization", "Bearer "+c.token)
}

// want makes a call that is to be answered with the status.
func (c capped) want(status int, method, path, body string) servetest.Answer {
	c.t.Helper()
	a := c.call(method, path, body)
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
	c.want(http.StatusOK, "GET", "/"+name, "").Into(c.t, &s)
	return s
}

// until waits until the semaphore stands as it should.
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

// A permit's life: acquired, seen, renewed, released, over.
func TestPermitOverHTTP(t *testing.T) {
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
		if h.PermitID != first.ID && h.PermitID != second.ID || !strings.HasPrefix(h.Holder, "bob-") || h.Weight != 1 || h.LeaseUntil.Sub(h.Since) < 8*time.Second {
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
	c.want(http.StatusNoContent, "DELETE", "/report/permits/"+second.ID, "") // somebody else's: the operator has it from the list
	if s := c.standing("report"); s.InUse != 0 || len(s.Holders) != 0 {
		t.Errorf("%+v", s)
	}
}

// Definitions by operators go before the file's, at once and in all processes, and evict nobody.
func TestDefinitionsOverHTTP(t *testing.T) {
	env, rules := cappedEnv(t, testenv.Redis(t), "report: {limit: 1}")
	one, two := startCapped(t, env), startCapped(t, env)
	held := one.acquire("report", `{"holder":"a"}`)

	one.want(http.StatusOK, "PUT", "/report", `{"limit":3,"lease_ms":2000}`)
	if s := two.standing("report"); s.Limit != 3 || s.LeaseMS != 2000 || s.Source != "overridden" || s.SetBy != "ada" {
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
	reload := servetest.Call("POST", one.URL("internal")+"/v1/rules/reload", "", "Authorization", "Bearer ada")
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
	two.want(http.StatusOK, "DELETE", "/shop:own", "").Into(t, &s)
	if s.Source != "none" {
		t.Errorf("%+v", s)
	}
	p := problemIn(t, one.want(http.StatusNotFound, "POST", "/shop:own/permits", `{"holder":"a"}`))
	if p.Reason != "unknown_semaphore" {
		t.Errorf("%+v", p)
	}
	one.want(http.StatusNotFound, "DELETE", "/shop:own", "")

	metrics := servetest.Call("GET", two.URL("internal")+"/metrics", "", "Authorization", "Bearer prom")
	for _, line := range []string{`tidegate_semaphore_limit{semaphore="report"} 5`, `tidegate_semaphore_in_use{semaphore="report"} 3`, `tidegate_semaphore_granted_total{semaphore="report"} 2`} {
		if !bytes.Contains(metrics.Body, []byte(line)) {
			t.Errorf("metrics lack %s:\n%s", line, regexp.MustCompile(`(?m)^tidegate_sem.*$`).FindAll(metrics.Body, -1))
		}
	}
}

// Who waits is let in by a release in another process; a place is given up by a hang-up, by the end of the time and by the process' end.
func TestWaitingOverHTTP(t *testing.T) {
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 1}, other: {limit: 1}")
	one, two := startCapped(t, env), startCapped(t, env)
	held := one.acquire("report", `{"holder":"first"}`)

	answers := make(chan servetest.Answer, 1)
	wait := func(c capped, ctx context.Context) {
		go func() {
			req, err := http.NewRequestWithContext(ctx, "POST", c.URL("internal")+"/v1/semaphores/report/permits", strings.NewReader(`{"holder":"waits","wait_ms":30000}`))
			if err != nil {
				answers <- servetest.Answer{Err: err}
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Tidegate-Token", "bob")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				answers <- servetest.Answer{Err: err}
				return
			}
			defer resp.Body.Close()
			var b bytes.Buffer
			_, err = b.ReadFrom(resp.Body)
			answers <- servetest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: b.Bytes(), Err: err}
		}()
		one.until("report", func(s standing) bool { return s.Waiting == 1 && s.Waiters[0].Holder == "waits" })
	}

	ctx, hangUp := context.WithCancel(t.Context())
	wait(two, ctx)
	p := problemIn(t, one.want(http.StatusServiceUnavailable, "POST", "/report/permits", `{"holder":"late","wait_ms":50}`))
	if p.Reason != "at_capacity" || p.Position != 2 {
		t.Errorf("%+v", p)
	}
	hangUp()
	<-answers
	one.until("report", func(s standing) bool { return s.Waiting == 0 })

	wait(two, t.Context())
	one.want(http.StatusNoContent, "DELETE", "/report/permits/"+held.ID, "")
	a := <-answers
	if a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	a.Into(t, &held)

	// Without a hang-up the request would hold it; several at once are all or none.
	one.want(http.StatusServiceUnavailable, "POST", "/other/permits", `{"holder":"both","also":["report"]}`)
	if s := one.standing("other"); s.InUse != 0 {
		t.Errorf("%+v", s)
	}

	wait(two, t.Context())
	if err := two.Stop(); err != nil {
		t.Error(err)
	}
	if a = <-answers; a.Status != http.StatusServiceUnavailable || problemIn(t, a).Reason != "draining" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%v %v", a, a.Header)
	}
	one.until("report", func(s standing) bool { return s.Waiting == 0 && s.InUse == 1 })
	one.want(http.StatusNoContent, "DELETE", "/report/permits/"+held.ID, "")
	both := one.acquire("other", `{"holder":"both","also":["report"]}`)
	if one.standing("report").InUse != 1 || one.standing("other").InUse != 1 {
		t.Error("both should be held")
	}
	one.want(http.StatusNoContent, "DELETE", "/other/permits/"+both.ID, "")
	if one.standing("report").InUse != 0 || one.standing("other").InUse != 0 {
		t.Error("both should be free")
	}
}

// A request that was sent again takes no second permit, and no other caller has anything of it.
func TestRequestIDsOfPermits(t *testing.T) {
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 10}")
	one, two := startCapped(t, env), startCapped(t, env)
	const body = `{"holder":"job","request_id":"4711"}`
	first := one.as("bob").acquire("report", body)
	if again := two.as("bob").acquire("report", body); again.ID != first.ID || again.Token != first.Token {
		t.Errorf("%+v and %+v", first, again)
	}
	for who, c := range map[string]capped{"another token": two.as("eve"), "an operator": two} {
		if got := c.acquire("report", body); got.ID == first.ID || strings.Split(got.ID, ".")[0] == strings.Split(first.ID, ".")[0] {
			t.Errorf("%s got the permit of bob: %+v", who, got)
		}
	}
	if got := two.as("bob").acquire("report", `{"holder":"job 2","request_id":"4711"}`); got.ID == first.ID {
		t.Error("another holder got it")
	}
	if s := one.standing("report"); s.InUse != 4 {
		t.Errorf("%+v", s)
	}
	one.as("bob").want(http.StatusNoContent, "DELETE", "/report/permits/"+first.ID, "")
	if next := one.as("bob").acquire("report", body); next.Token <= first.Token {
		t.Errorf("a new permit has an old token: %+v", next)
	}
}

// Definitions are the operators', permits the services', and nothing is anybody else's.
func TestRolesOfSemaphores(t *testing.T) {
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

// What could never be right says where and what would be.
func TestInvalidPermitRequests(t *testing.T) {
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 2}, small: {limit: 1}, \"shop:x\": {limit: 2}")
	c := startCapped(t, env)
	const permits = "/report/permits"
	for _, tt := range []struct{ method, path, body, location, message string }{
		{"POST", permits, `{}`, "body", "holder"},
		{"POST", permits, `{"holder":""}`, "body.holder", "length"},
		{"POST", permits, `{"holder":"a\nb"}`, "body", "holder is"},
		{"POST", permits, `{"holder":"a","weight":0}`, "body.weight", ">= 1"},
		{"POST", permits, `{"holder":"a","weight":3}`, "body.weight", "at most the limit of report"},
		{"POST", permits, `{"holder":"a","weight":2,"also":["small"]}`, "body.weight", "at most the limit of small"},
		{"POST", permits, `{"holder":"a","wait_ms":-1}`, "body.wait_ms", ">= 0"},
		{"POST", permits, `{"holder":"a","wait_ms":30001}`, "body.wait_ms", "<= 30000"},
		{"POST", permits, `{"holder":"a","also":["shop:x"]}`, "body", "same hash tag"},
		{"POST", permits, `{"holder":"a","also":["report"]}`, "body", "twice"},
		{"POST", permits, `{"holder":"a","also":["small","Shop"]}`, "body.also[1]", "1 to 64"},
		{"POST", permits, `{"holder":"a","colour":1}`, "body.colour", "unexpected"},
		{"DELETE", permits + "/nonsense", "", "path.id", "no permit's id"},
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
	if s := c.standing("report"); s.InUse != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// Without Redis there is no permit and no renewal, and no word that somebody's permit is over.
func TestPermitsWithoutRedis(t *testing.T) {
	server := testenv.StartRedis(t)
	env, _ := cappedEnv(t, server.URL(), "report: {limit: 2}")
	c := startCapped(t, env)
	held := c.acquire("report", `{"holder":"a"}`)
	server.Kill()
	for _, call := range [][3]string{
		{"POST", "/report/permits", `{"holder":"b"}`},
		{"POST", "/report/permits", `{"holder":"b","wait_ms":200}`},
		{"PUT", "/report/permits/" + held.ID, ""},
		{"DELETE", "/report/permits/" + held.ID, ""},
		{"GET", "/report", ""},
		{"GET", "", ""},
		{"PUT", "/report", `{"limit":5}`},
	} {
		a := c.want(http.StatusServiceUnavailable, call[0], call[1], call[2])
		if p := problemIn(t, a); p.Reason != "store_unavailable" || a.Header.Get("Retry-After") == "" {
			t.Errorf("%v: %v", call, a)
		}
	}
}

// Who waits for longer than a body may take to arrive is not cut off. Here until a lease ends that nobody renews.
func TestLongWaitOverHTTP(t *testing.T) {
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 1, lease: 7s}")
	c := startCapped(t, env)
	first := c.acquire("report", `{"holder":"dies"}`)
	second := c.acquire("report", `{"holder":"waits","wait_ms":20000}`)
	if second.Token <= first.Token {
		t.Errorf("%+v after %+v", second, first)
	}
	c.want(http.StatusGone, "PUT", "/report/permits/"+first.ID, "")
}

// All orders of a sale, as CSV, by one caller at a time.
func TestOrdersCSV(t *testing.T) {
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 1}")
	c := startCapped(t, env)
	startWorker(t, env)
	operator := []string{"Authorization", "Bearer ada"}
	sale := c.URL("internal") + "/v1/sales/concert"
	if a := servetest.Call("PUT", sale, servetest.Sale("ticket", 10), operator...); a.Status != http.StatusCreated {
		t.Fatal(a)
	}
	if a := servetest.Call("POST", sale+"/open", "", operator...); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	for _, user := range []string{"ann", "=cmd|calc", "bob"} {
		servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
			return servetest.Call("POST", c.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "X-User-ID", user)
		})
	}
	csv := func(token string) servetest.Answer {
		return servetest.Call("GET", sale+"/orders.csv", "", "Authorization", "Bearer "+token)
	}
	a := servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := csv("bob")
		if bytes.Count(a.Body, []byte(",confirmed,")) != 3 {
			a.Status = 0
		}
		return a
	})
	if rows := strings.Split(strings.TrimSpace(string(a.Body)), "\n"); len(rows) != 4 || !strings.HasPrefix(rows[0], "order_id,") || !strings.Contains(string(a.Body), ",'=cmd|calc,") {
		t.Errorf("%s", a.Body)
	}
	if a := csv("prom"); a.Status != http.StatusForbidden {
		t.Error(a)
	}
	if a := servetest.Call("GET", c.URL("public")+"/v1/sales/concert/orders.csv", ""); a.Status != http.StatusNotFound {
		t.Error(a)
	}
	if a := servetest.Call("GET", c.URL("internal")+"/v1/sales/none/orders.csv", "", operator...); a.Status != http.StatusNotFound || problemIn(t, a).Reason != "unknown_sale" {
		t.Fatalf("%v while %s", a, c.call("GET", "/report", "").Body)
	}

	// The same budget as any other caller's.
	held := c.acquire("report", `{"holder":"someone else"}`)
	answer := make(chan servetest.Answer, 1)
	go func() { answer <- csv("bob") }()
	s := c.until("report", func(s standing) bool { return s.Waiting == 1 })
	if !strings.HasPrefix(s.Waiters[0].Holder, "request ") || !strings.HasSuffix(s.Waiters[0].Holder, " of bob") {
		t.Errorf("%+v", s.Waiters)
	}
	c.want(http.StatusNoContent, "DELETE", "/report/permits/"+held.ID, "")
	if a := <-answer; a.Status != http.StatusOK || bytes.Count(a.Body, []byte("\n")) != 4 {
		t.Error(a)
	}
	c.until("report", func(s standing) bool { return s.InUse == 0 })

	c.want(http.StatusOK, "PUT", "/report", `{"limit":0}`)
	full := csv("bob")
	if p := problemIn(t, full); full.Status != http.StatusServiceUnavailable || p.Reason != "at_capacity" || p.Position != 1 || full.Header.Get("Retry-After") == "" {
		t.Error(full)
	}
}

// A Redis that lost everything is told of the definitions again, operators' too. Who holds a permit registers again by renewing it, and nobody
// gets one meanwhile.
func TestRedisLosesPermits(t *testing.T) {
	server := testenv.StartRedis(t)
	env, _ := cappedEnv(t, server.URL(), "report: {limit: 1}")
	c := startCapped(t, env)
	c.want(http.StatusOK, "PUT", "/report", `{"limit":2,"lease_ms":20000}`)
	held := c.acquire("report", `{"holder":"a"}`)
	server.RestartEmpty()
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return c.call("GET", "/report", "") })
	if s := c.standing("report"); s.Limit != 2 || s.LeaseMS != 20000 || s.Source != "overridden" || s.InUse != 0 {
		t.Errorf("%+v", s)
	}
	full := c.want(http.StatusServiceUnavailable, "POST", "/report/permits", `{"holder":"b"}`)
	if p := problemIn(t, full); p.Reason != "at_capacity" {
		t.Errorf("%v", full)
	}
	if seconds, err := strconv.Atoi(full.Header.Get("Retry-After")); err != nil || seconds < 5 || seconds > 20 {
		t.Errorf("Retry-After %q, want what is left of the lease", full.Header.Get("Retry-After"))
	}
	c.want(http.StatusOK, "PUT", "/report/permits/"+held.ID, "")
	if s := c.standing("report"); s.InUse != 1 || s.Holders[0].FencingToken != held.Token || s.Holders[0].PermitID != held.ID {
		t.Errorf("%+v", s)
	}
}

// Without the database permits go on, and nothing is defined.
func TestPermitsWithoutPostgres(t *testing.T) {
	database := testenv.StartPostgres(t)
	env, _ := cappedOver(t, environment(testenv.Redis(t), database.URL()), "report: {limit: 1}")
	c := startCapped(t, env)
	c.until("report", func(s standing) bool { return s.Source == "file" })
	database.Kill()
	held := c.acquire("report", `{"holder":"a"}`)
	c.want(http.StatusOK, "PUT", "/report/permits/"+held.ID, "")
	if s := c.standing("report"); s.InUse != 1 || s.Source != "file" {
		t.Errorf("%+v", s)
	}
	c.want(http.StatusNoContent, "DELETE", "/report/permits/"+held.ID, "")
	for _, call := range [][3]string{{"PUT", "/report", `{"limit":5}`}, {"DELETE", "/report", ""}, {"POST", "/none/permits", `{"holder":"a"}`}, {"GET", "", ""}} {
		a := c.want(http.StatusServiceUnavailable, call[0], call[1], call[2])
		if p := problemIn(t, a); p.Reason != "store_unavailable" {
			t.Errorf("%v: %v", call, a)
		}
	}
	if s := c.standing("report"); s.Limit != 1 {
		t.Errorf("%+v", s)
	}
}
