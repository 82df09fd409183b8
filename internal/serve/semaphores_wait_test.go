package serve

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

// TestWaitingOverHTTP: a release admits a waiter in another process; a waiter leaves the queue when it disconnects, at its
// deadline, and when its process ends.
func TestWaitingOverHTTP(t *testing.T) {
	t.Parallel()
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
			req.Header.Set("X-Tidegate-Token", tokenOf("bob"))
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

	// If the disconnect had been missed, the request would hold it; several semaphores are acquired all or none.
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

// TestWaitingForSeveralOverHTTP: a waiter for two semaphores, one of which is full, is not overtaken in the queue of the other.
func TestWaitingForSeveralOverHTTP(t *testing.T) {
	t.Parallel()
	env, _ := cappedEnv(t, testenv.Redis(t), "open: {limit: 1}, shut: {limit: 0}")
	c := startCapped(t, env)
	first := make(chan servetest.Answer, 1)
	go func() { first <- c.call("POST", "/open/permits", `{"holder":"both","also":["shut"],"wait_ms":30000}`) }()
	c.until("open", func(s standing) bool { return s.Waiting == 1 })
	p := problemIn(t, c.want(http.StatusServiceUnavailable, "POST", "/open/permits", `{"holder":"one"}`))
	if p.Reason != "at_capacity" || p.Position != 2 || c.standing("open").InUse != 0 {
		t.Errorf("%+v", p)
	}
	c.want(http.StatusOK, "PUT", "/shut", `{"limit":1}`)
	if a := <-first; a.Status != http.StatusCreated {
		t.Error(a)
	}
	s := c.standing("shut")
	if c.standing("open").InUse != 1 || s.InUse != 1 {
		t.Fatal("both should be held")
	}
	c.want(http.StatusNoContent, "DELETE", "/shut/permits/"+s.Holders[0].PermitID, "")
	if c.standing("open").InUse != 0 || c.standing("shut").InUse != 0 {
		t.Error("both should be free")
	}
}

// TestRequestIDsOfPermits: a repeated request takes no second permit, and other callers cannot use its id.
func TestRequestIDsOfPermits(t *testing.T) {
	t.Parallel()
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

// TestLongWaitOverHTTP: a wait that is longer than the time limit for bodies is not cut off. It ends with the lease of a holder
// that does not renew.
func TestLongWaitOverHTTP(t *testing.T) {
	t.Parallel()
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 1, lease: 7s}")
	c := startCapped(t, env)
	first := c.acquire("report", `{"holder":"dies"}`)
	second := c.acquire("report", `{"holder":"waits","wait_ms":20000}`)
	if second.Token <= first.Token {
		t.Errorf("%+v after %+v", second, first)
	}
	c.want(http.StatusGone, "PUT", "/report/permits/"+first.ID, "")
}

// TestOrdersCSV: all orders of a sale as CSV, for one caller at a time.
func TestOrdersCSV(t *testing.T) {
	t.Parallel()
	env, _ := cappedEnv(t, testenv.Redis(t), "report: {limit: 1}")
	c := startCapped(t, env)
	startWorker(t, env)
	operator := []string{"Authorization", "Bearer " + tokenOf("ada")}
	sale := c.URL("internal") + "/v1/sales/concert"
	servetest.OpenSale(t, c.URL("internal"), "concert", servetest.Sale("ticket", 10), operator...)
	for _, user := range []string{"ann", "=cmd|calc", "bob"} {
		servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
			return servetest.Call("POST", c.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "X-User-ID", user)
		})
	}
	csv := func(token string) servetest.Answer {
		return servetest.Call("GET", sale+"/orders.csv", "", "Authorization", "Bearer "+tokenOf(token))
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

	// It shares the limit with all other callers.
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

// TestPermitsOnACluster: on a Redis Cluster, too, a release admits a waiter in another process, and names without a hash tag
// can be acquired together.
func TestPermitsOnACluster(t *testing.T) {
	t.Parallel()
	env, _ := cappedEnv(t, "redis://"+strings.Join(testenv.RedisCluster(t), ","), "report: {limit: 1}, other: {limit: 1}, \"shop:own\": {limit: 1}")
	one, two := startCapped(t, env), startCapped(t, env)
	held := one.acquire("report", `{"holder":"first","also":["other"]}`)
	one.acquire("shop:own", `{"holder":"first"}`)
	answer := make(chan servetest.Answer, 1)
	go func() { answer <- two.call("POST", "/other/permits", `{"holder":"waits","wait_ms":30000}`) }()
	one.until("other", func(s standing) bool { return s.Waiting == 1 })
	one.want(http.StatusNoContent, "DELETE", "/report/permits/"+held.ID, "")
	if a := <-answer; a.Status != http.StatusCreated {
		t.Error(a)
	}
	var list struct{ Items []standing }
	two.want(http.StatusOK, "GET", "", "").Into(t, &list)
	if len(list.Items) != 3 || list.Items[0].InUse != 1 || list.Items[1].InUse != 0 || list.Items[2].InUse != 1 {
		t.Errorf("%+v", list)
	}
}
