package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// An authenticator is a client that asks an API about logins.
type authenticator struct {
	*servetest.Program
	t testing.TB
}

// behindProxy returns an environment in which the API trusts this machine as a proxy.
func behindProxy(redis, database string) func(string) string {
	env := environment(redis, database)
	return func(name string) string {
		if name == "TRUSTED_PROXIES" {
			return "127.0.0.1"
		}
		return env(name)
	}
}

func startAuthenticator(t testing.TB, env func(string) string) authenticator {
	t.Helper()
	a := authenticator{startAPI(t, env), t}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", a.URL("internal")+"/readyz", "") })
	return a
}

type attempted struct {
	AttemptID    string `json:"attempt_id"`
	Decision     string
	Reason       string
	RetryAfterMS int64 `json:"retry_after_ms"`
	Challenge    struct{ Provider, URL string }
	Degraded     bool
}

// ask asks about a name from an address. fields are names and values in turn.
func (a authenticator) ask(name, ip string, fields ...string) servetest.Answer {
	body := map[string]string{"name": name, "ip": ip}
	for i := 0; i < len(fields); i += 2 {
		body[fields[i]] = fields[i+1]
	}
	text, _ := json.Marshal(body) // of strings: cannot fail
	return servetest.Once("POST", a.URL("internal")+"/v1/login/attempts", string(text))
}

// wants asks, and fails the test unless the answer has the decision and the reason.
func (a authenticator) wants(decision, reason, name, ip string, fields ...string) (got attempted) {
	a.t.Helper()
	answer := a.ask(name, ip, fields...)
	answer.Into(a.t, &got)
	if answer.Status != http.StatusOK || got.Decision != decision || got.Reason != reason || got.Degraded {
		a.t.Fatalf("%s from %s %v: %v, want %s because %q", name, ip, fields, answer, decision, reason)
	}
	return got
}

// settle reports the outcome of an attempt, and returns the device token.
func (a authenticator) settle(status int, id, result string) (device string) {
	a.t.Helper()
	answer := servetest.Call("POST", a.URL("internal")+"/v1/login/attempts/"+id+"/outcome", `{"result":"`+result+`"}`)
	var got struct{ Device string }
	if answer.Into(a.t, &got); answer.Status != status {
		a.t.Fatalf("%v, want %d", answer, status)
	}
	return got.Device
}

// fail makes one attempt with a wrong password.
func (a authenticator) fail(name, ip string) {
	a.t.Helper()
	a.settle(http.StatusOK, a.wants("allow", "", name, ip).AttemptID, "failure")
}

// TestLoginOverTwoAPIs: counts, device tokens and used solutions of one API are valid at the other.
func TestLoginOverTwoAPIs(t *testing.T) {
	t.Parallel()
	env := environment(testenv.Redis(t), databases.Postgres(t))
	a, b := startAuthenticator(t, env), startAuthenticator(t, env)

	first := a.wants("allow", "", "ann", "192.0.2.1", "request_id", "r1")
	if again := b.wants("allow", "", "Ann ", "192.0.2.1", "request_id", "r1"); again.AttemptID != first.AttemptID {
		t.Errorf("%+v, want %+v", again, first)
	}
	device := b.settle(http.StatusOK, first.AttemptID, "success")
	if again := a.settle(http.StatusOK, first.AttemptID, "success"); device == "" || again != device {
		t.Errorf("%q, then %q", device, again)
	}
	a.settle(http.StatusConflict, first.AttemptID, "failure")

	a.fail("ann", "198.51.100.1")
	b.fail("ann", "198.51.100.2")
	a.wants("allow", "", "ann", "198.51.100.3", "mode", "check")
	a.wants("challenge", "name_failures", "ann", "198.51.100.3", "mode", "report")
	challenged := b.wants("challenge", "name_failures", "ann", "192.0.2.9")
	if challenged.Challenge.Provider != "altcha" || challenged.RetryAfterMS < 590_000 || challenged.RetryAfterMS > 600_000 {
		t.Errorf("%+v", challenged)
	}
	a.settle(http.StatusOK, a.wants("allow", "", "ann", "192.0.2.1", "device", device).AttemptID, "error") // the owner is not locked out

	solved := servetest.Solve(t, a.URL("public")+challenged.Challenge.URL)
	b.wants("challenge", "captcha_refused", "ann", "192.0.2.10", "captcha", solved)
	opened := b.wants("allow", "", "ann", "192.0.2.9", "captcha", solved)
	for _, api := range []authenticator{a, b} {
		api.wants("challenge", "captcha_refused", "ann", "192.0.2.9", "captcha", solved)
	}
	a.settle(http.StatusOK, opened.AttemptID, "failure")
}

// TestLoginBan: an address with too many failures is banned at all processes, and lifting the ban is permanent.
func TestLoginBan(t *testing.T) {
	t.Parallel()
	env := behindProxy(testenv.Redis(t), databases.Postgres(t))
	a, b := startAuthenticator(t, env), startAuthenticator(t, env)
	startWorker(t, env)
	openShop(t, a.Program, 10)
	buyers := 0
	order := func(ip string) servetest.Answer {
		buyers++ // a ban does not hide an existing order
		return servetest.Call("POST", b.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "X-User-ID", fmt.Sprint("buyer-", buyers), "X-Forwarded-For", ip)
	}
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return order("203.0.113.8") })
	for n := range 30 {
		answer := a.ask(fmt.Sprintf("name-%d", n%5), "203.0.113.9", "mode", "report")
		if answer.Status != http.StatusOK {
			t.Fatal(answer)
		}
	}
	a.wants("deny", "banned", "ann", "203.0.113.9")
	servetest.Until(t, http.StatusForbidden, func() servetest.Answer { return order("203.0.113.9") })
	if r := problemIn(t, order("203.0.113.9")); r.Reason != "banned" {
		t.Errorf("%+v", r)
	}
	banned := b.wants("deny", "banned", "ann", "203.0.113.9", "mode", "check")
	if banned.RetryAfterMS < 590_000 || banned.RetryAfterMS > 600_000 {
		t.Errorf("%+v", banned)
	}
	a.wants("allow", "", "ann", "203.0.113.8", "mode", "check")
	for _, list := range []string{"/v1/bans", "/v1/login/subjects?ip=203.0.113.9"} {
		answer := servetest.Call("GET", b.URL("internal")+list, "")
		if !strings.Contains(string(answer.Body), `"rule":"login-ip-30-in-10m-ban"`) || !strings.Contains(string(answer.Body), `"until":"`) {
			t.Errorf("%s: %v", list, answer)
		}
	}
	// The history is written after the responses.
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		answer := servetest.Call("GET", b.URL("internal")+"/v1/login/history", "")
		if !strings.Contains(string(answer.Body), `"action":"ban","factor":"password","ip":"203.0.113.x"`) {
			answer.Status = 0
		}
		return answer
	})
	if answer := servetest.Call("DELETE", b.URL("internal")+"/v1/bans/ip/203.0.113.9", ""); answer.Status != http.StatusNoContent {
		t.Fatal(answer)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		answer := a.ask("bob", "203.0.113.9", "mode", "check")
		if strings.Contains(string(answer.Body), "banned") {
			answer.Status = 0
		}
		return answer
	})
	a.fail("bob", "203.0.113.9")
	a.wants("allow", "", "bob", "203.0.113.9", "mode", "check")
	if answer := order("203.0.113.9"); answer.Status == http.StatusForbidden {
		t.Error(answer)
	}
}

// TestLoginSubjectOfAnOperator: operators see in the database's history since when a name is challenged, and lift that.
func TestLoginSubjectOfAnOperator(t *testing.T) {
	t.Parallel()
	a := startAuthenticator(t, environment(testenv.Redis(t), databases.Postgres(t)))
	for range 3 {
		a.fail("ann", "192.0.2.1")
	}
	subject := a.URL("internal") + "/v1/login/subjects?name=ann"
	type stands struct {
		Items []struct {
			Rule         string
			Active       bool
			Failed       int
			Since, Until *time.Time
		}
		Reference string
	}
	var got stands
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		answer := servetest.Call("GET", subject, "")
		got = stands{}
		if answer.Into(t, &got); len(got.Items) == 0 || got.Items[0].Since == nil {
			answer.Status = 0
		}
		return answer
	})
	first := got.Items[0]
	if first.Rule != "login-name-3-in-1m-challenge" || !first.Active || first.Failed != 3 || first.Until == nil || first.Until.Sub(*first.Since) != 10*time.Minute {
		t.Errorf("%+v", first)
	}
	history := servetest.Call("GET", a.URL("internal")+"/v1/login/history?reference="+got.Reference, "")
	if strings.Count(string(history.Body), got.Reference) != 1 || strings.Contains(string(history.Body), "ann") {
		t.Errorf("%v", history)
	}
	metrics := string(servetest.Call("GET", a.URL("internal")+"/metrics", "").Body)
	for _, line := range []string{
		`tidegate_login_attempts_total{decision="allow",mode="reserve",reason="none"} 3`, `tidegate_login_outcomes_total{result="failure"} 3`,
		"tidegate_login_history_dropped_total 0", "tidegate_login_degraded_total 0",
	} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("no %s in the metrics", line)
		}
	}
	if regexp.MustCompile(`\bann\b`).MatchString(metrics) {
		t.Error("a name is in the metrics")
	}
	if answer := servetest.Call("DELETE", subject, ""); answer.Status != http.StatusNoContent {
		t.Fatal(answer)
	}
	a.wants("allow", "", "ann", "192.0.2.1")
}

// TestLoginWithoutRedis: while Redis is down the process counts alone, so attempts are still limited, and requests that need
// Redis get 503.
func TestLoginWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	a := startAuthenticator(t, environment(redis.URL(), databases.Postgres(t)))
	a.wants("allow", "", "ann", "192.0.2.1")
	redis.Kill()
	ask := func(decision string, fields ...string) (got attempted) {
		t.Helper()
		answer := a.ask("ann", "192.0.2.1", fields...)
		answer.Into(t, &got)
		if answer.Status != http.StatusOK || got.Decision != decision || !got.Degraded {
			t.Fatalf("%v, want %s", answer, decision)
		}
		return got
	}
	allowed := 0
	for ; allowed < 3; allowed++ {
		if answer := a.ask("ann", "192.0.2.1", "mode", "check"); strings.Contains(answer.String(), "challenge") {
			break
		}
		a.settle(http.StatusOK, ask("allow").AttemptID, "failure")
	}
	if allowed != 1 && allowed != 2 {
		t.Errorf("%d failures, want half the limit of 3", allowed)
	}
	ask("challenge")
	subject := a.URL("internal") + "/v1/login/subjects?name=ann"
	for _, answer := range []servetest.Answer{
		a.ask("ann", "192.0.2.1", "captcha", servetest.Solve(t, a.URL("public")+ask("challenge").Challenge.URL)),
		servetest.Once("GET", subject, ""), servetest.Once("DELETE", subject, ""),
	} {
		if r := problemIn(t, answer); answer.Status != http.StatusServiceUnavailable || r.Reason != "store_unavailable" || answer.Header.Get("Retry-After") == "" {
			t.Errorf("%v", answer)
		}
	}
	metrics := servetest.Call("GET", a.URL("internal")+"/metrics", "").String()
	if !strings.Contains(metrics, "tidegate_login_degraded_total ") || strings.Contains(metrics, "tidegate_login_degraded_total 0\n") {
		t.Error("the metrics do not say that this process decides by itself")
	}
	redis.Restart()
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		answer := a.ask("ann", "192.0.2.1", "mode", "check")
		if strings.Contains(answer.String(), "degraded") {
			answer.Status = 0
		}
		return answer
	})
}

// A tee is a log that is also kept in memory.
type tee struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *tee) Write(part []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(part)
}

// TestLogsNameNobody: no log, at any level, contains a name, a client's secret, or one of the caller.
func TestLogsNameNobody(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedis(t)
	database := testenv.StartPostgres(t)
	env := environment(redis.URL(), database.URL())
	log := &tee{}
	a := authenticator{servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API([]string{"-log-level", "debug"}, env, stderr)
		if err != nil {
			return err
		}
		all := io.MultiWriter(stderr, log)
		return API(ctx, cfg, cfg.Logger(all))
	}), t}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Once("GET", a.URL("internal")+"/readyz", "") })

	const name, ip = `zacharias"; DROP TABLE accounts; -- %s <script>\n{{.}}`, "203.0.113.234"
	secrets := []string{"zacharias", "DROP TABLE", ip, "hunter2"}
	var reserved attempted
	try := func() {
		for _, mode := range []string{"check", "reserve", "report"} {
			for _, fields := range [][]string{nil, {"device", "hunter2-device"}, {"captcha", "hunter2-captcha"}, {"request_id", "hunter2-request"}, {"factor", "hunter2!"}} {
				answer := a.ask(name, ip, append([]string{"mode", mode}, fields...)...)
				var got attempted
				if answer.Into(t, &got); got.AttemptID != "" {
					reserved = got
					secrets = append(secrets, got.AttemptID)
				}
				if got.Challenge.URL != "" && answer.Status == http.StatusOK {
					secrets = append(secrets, got.Challenge.URL)
				}
			}
		}
		a.ask(name+"\x00", ip)
		a.ask(name, "zacharias")
		a.ask("zacharias"+strings.Repeat("x", 300), ip)
		servetest.Once("POST", a.URL("internal")+"/v1/login/attempts", `{"name":"zacharias","hunter2":`)
		for _, id := range []string{reserved.AttemptID, "hunter2-attempt"} {
			for _, result := range []string{"failure", "success", "hunter2"} {
				servetest.Once("POST", a.URL("internal")+"/v1/login/attempts/"+id+"/outcome", `{"result":"`+result+`"}`)
			}
		}
		for _, method := range []string{"GET", "DELETE"} {
			servetest.Once(method, a.URL("internal")+"/v1/login/subjects?name=zacharias&ip="+ip, "")
		}
		servetest.Once("GET", a.URL("internal")+"/v1/login/history?reference=zacharias", "")
	}
	device := a.settle(http.StatusOK, a.wants("allow", "", name, ip).AttemptID, "success")
	secrets = append(secrets, device)
	a.wants("allow", "", name, ip, "device", device, "mode", "check")
	try()
	database.Kill()
	try()
	redis.Kill()
	try()
	if err := a.Stop(); err != nil && !strings.Contains(err.Error(), "commit") {
		t.Log(err) // nothing can be lost here
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	text := log.text.String()
	for _, trouble := range []string{"login: the store does not answer", "login: the history is unavailable"} {
		if !strings.Contains(text, trouble) {
			t.Errorf("nothing about %q was logged:\n%s", trouble, text)
		}
	}
	for _, secret := range secrets {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("the log has %q: %s", secret, text[max(0, at-200):min(len(text), at+100)])
		}
	}
}
