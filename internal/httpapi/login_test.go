package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/failure"
	loginhttp "github.com/tidegate/tidegate/internal/httpapi/login"
	"github.com/tidegate/tidegate/internal/httpapi/problem"
	"github.com/tidegate/tidegate/login"
)

// loginBed is an API with a throttle that counts in memory by the default rules, and its own gate.
type loginBed struct {
	*bed
	t       testing.TB
	history *fakeHistory
	settled []string
	*login.Throttle
}

const attempts = "/v1/login/attempts"

func setupLogin(t testing.TB, change ...func(*Config)) *loginBed {
	t.Helper()
	b := &loginBed{t: t, history: &fakeHistory{}}
	b.bed = setup(t, append([]func(*Config){withCaptcha(t, "- {name: r, subject: user, limit: 1000, window: 1s}\n"), func(c *Config) {
		gate := gateOf(t, "- {name: r, subject: user, limit: 1000, window: 1s}\n")
		c.Gate = gate
		var err error
		b.Throttle, err = login.New(login.NewMemoryStore(), gate.Rules, login.Options{
			Secret: captchaSecret, Captcha: c.Captcha, Bans: gate, History: b.history, Logger: c.Logger,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Login, c.LoginHistory = b.Throttle, b.history
		c.Settled = func(result string) { b.settled = append(b.settled, result) }
	}}, change...)...)
	return b
}

type attempted struct {
	AttemptID    string `json:"attempt_id"`
	Decision     string
	Reason       *string
	RetryAfterMS *int64 `json:"retry_after_ms"`
	Challenge    *problem.ChallengeView
	Degraded     bool
}

// attempt asks about ann from 192.0.2.7, unless fields override it: names and values in turn.
func (b *loginBed) attempt(fields ...string) (got attempted) {
	b.t.Helper()
	w := b.call("POST", attempts, attemptBody(fields...))
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Reason == nil || got.RetryAfterMS == nil {
		b.t.Fatalf("%v: %d %s", fields, w.Code, w.Body)
	}
	if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("RateLimit") != "" || h.Get("RateLimit-Policy") != "" {
		b.t.Errorf("%v", h)
	}
	return got
}

func attemptBody(fields ...string) string {
	body := map[string]string{"name": "ann", "ip": "192.0.2.7"}
	for i := 0; i < len(fields); i += 2 {
		body[fields[i]] = fields[i+1]
	}
	text, _ := json.Marshal(body) // of strings: cannot fail
	return string(text)
}

func (b *loginBed) call(method, path, body string) *httptest.ResponseRecorder {
	return call(b.Internal(), method, path, body)
}

func (b *loginBed) settle(id, result string) *httptest.ResponseRecorder {
	return b.call("POST", attempts+"/"+id+"/outcome", `{"result":"`+result+`"}`)
}

// fail reports n failures.
func (b *loginBed) fail(n int, fields ...string) (last attempted) {
	b.t.Helper()
	for range n {
		last = b.attempt(append([]string{"mode", "report"}, fields...)...)
	}
	return last
}

// wants fails the test unless an answer has the decision and the reason.
func (got attempted) wants(t testing.TB, decision, reason string) {
	t.Helper()
	if got.Decision != decision || *got.Reason != reason || (got.Challenge != nil) != (decision == "challenge") || got.Degraded {
		t.Fatalf("%+v because %s, want %s because %q", got, *got.Reason, decision, reason)
	}
}

func TestLoginModes(t *testing.T) {
	b := setupLogin(t)
	for range 5 {
		got := b.attempt("mode", "check")
		if got.wants(t, "allow", ""); got.AttemptID != "" || *got.RetryAfterMS != 0 {
			t.Fatalf("%+v", got)
		}
	}
	for range 2 {
		got := b.attempt()
		got.wants(t, "allow", "")
		if w := b.settle(got.AttemptID, "failure"); w.Code != 200 || w.Body.String() != "{}\n" || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	got := b.attempt("mode", "report")
	got.wants(t, "challenge", "name_failures")
	if *got.RetryAfterMS <= 0 || *got.RetryAfterMS > 600_000 || got.AttemptID != "" || got.Challenge.Provider != "altcha" || !strings.HasPrefix(got.Challenge.URL, "/v1/captcha/challenge?") {
		t.Errorf("%+v %+v", got, got.Challenge)
	}
	for _, mode := range []string{"check", "reserve"} {
		got := b.attempt("mode", mode)
		got.wants(t, "challenge", "name_failures")
	}
	b.attempt("name", "bob").wants(t, "allow", "") // counted by address and by name
	b.attempt("factor", "otp").wants(t, "allow", "")
	if !slices.Equal(b.settled, []string{"failure", "failure"}) {
		t.Errorf("%v", b.settled)
	}
}

// TestLoginAttemptsUnderWay: concurrent attempts cannot pass between check and count, and pending attempts cause no penalty.
func TestLoginAttemptsUnderWay(t *testing.T) {
	b := setupLogin(t)
	for range 3 {
		b.attempt().wants(t, "allow", "")
	}
	got := b.attempt()
	got.wants(t, "delay", "in_flight")
	if *got.RetryAfterMS <= 0 {
		t.Errorf("%d ms", *got.RetryAfterMS)
	}
}

// TestLoginDevice: a client that has logged in before is not locked out by others' failures, and a forged token has no effect.
func TestLoginDevice(t *testing.T) {
	b := setupLogin(t)
	w := b.settle(b.attempt().AttemptID, "success")
	var got struct{ Device string }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Device == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	b.fail(3, "ip", "198.51.100.1").wants(t, "challenge", "name_failures")
	for _, device := range []string{"", "x", got.Device + "A", "B" + got.Device[1:], strings.Repeat(got.Device, 100), "\x00"} {
		b.attempt("device", device).wants(t, "challenge", "name_failures")
	}
	b.fail(3, "name", "bob").wants(t, "challenge", "name_failures")
	b.attempt("name", "bob", "device", got.Device).wants(t, "challenge", "name_failures")
	owner := b.attempt("device", got.Device)
	owner.wants(t, "allow", "")
	if w := b.settle(owner.AttemptID, "success"); w.Body.String() != "{}\n" {
		t.Errorf("a token that is fresh was replaced: %s", w.Body)
	}
}

func TestLoginOutcomes(t *testing.T) {
	b := setupLogin(t)
	for _, first := range []string{"success", "failure", "error"} {
		id := b.attempt("name", first, "factor", strings.Repeat("f", 32)).AttemptID
		if len(id) > 256 {
			t.Errorf("the id has %d characters", len(id))
		}
		answer := b.settle(id, first)
		if answer.Code != 200 || (first == "success") != strings.Contains(answer.Body.String(), `"device":"`) {
			t.Errorf("%s: %d %s", first, answer.Code, answer.Body)
		}
		for _, again := range []string{"error", "success", "failure", first} {
			w := b.settle(id, again)
			if again == first {
				if w.Code != 200 || w.Body.String() != answer.Body.String() {
					t.Errorf("%s again: %d %s, want %s", first, w.Code, w.Body, answer.Body)
				}
			} else if p := problemIn(t, w); p.Status != 409 || p.Reason != "conflict" || p.Detail != "The attempt has a different outcome." {
				t.Errorf("%s after %s: %s", again, first, w.Body)
			}
		}
	}
	b.settled = nil
	id := b.attempt("name", "dora", "device", "none").AttemptID
	for _, unknown := range []string{"x", id[:len(id)-1], "B" + id[1:], id + "A", strings.Repeat("A", 257), strings.Repeat("A", 4000), "%00", "%FF", "..", "a%2Fb"} {
		if p := problemIn(t, b.settle(unknown, "success")); p.Status != 404 || p.Reason != "unknown_attempt" && unknown != ".." {
			t.Errorf("%.20s: %+v", unknown, p)
		}
	}
	if b.settled != nil {
		t.Errorf("%v", b.settled)
	}
	for body, at := range map[string]string{
		`{}`: "body", `{"result":"failed"}`: "body.result", `{"result":""}`: "body.result", `{"result":null}`: "body.result",
		`{"result":"success","user":"ann"}`: "body.user", `{"result":1}`: "body.result", `[]`: "body", `x`: "body",
	} {
		p := problemIn(t, b.call("POST", attempts+"/"+id+"/outcome", body))
		if p.Status != 422 || len(p.Errors) == 0 || p.Errors[0].Location != at {
			t.Errorf("%s: %+v", body, p)
		}
	}
}

// lateLogin is a throttle whose clock is half a minute ahead.
type lateLogin struct{ loginhttp.Throttle }

func (lateLogin) Settle(context.Context, string, login.Result) (login.Settled, error) {
	return login.Settled{}, failure.New(login.ErrLate, "the attempt was not settled within 30s and counts as failed")
}

func TestLoginOutcomeThatIsLate(t *testing.T) {
	b := setupLogin(t, func(c *Config) { c.Login = lateLogin{c.Login} })
	p := problemIn(t, b.settle(b.attempt().AttemptID, "success"))
	if p.Status != 409 || p.Reason != "conflict" || p.Detail != "the attempt was not settled within 30s and counts as failed" {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(b.settled, []string{"late"}) {
		t.Errorf("%v", b.settled)
	}
}

// TestLoginChallenge: one solution allows one attempt, for the name and address that were challenged.
func TestLoginChallenge(t *testing.T) {
	b := setupLogin(t)
	b.fail(3)
	other := b.fail(3, "name", "bob").Challenge.URL
	got := b.attempt()
	got.wants(t, "challenge", "name_failures")
	b.attempt("captcha", solution(t, b.Public(), other)).wants(t, "challenge", "captcha_refused")
	solved := solution(t, b.Public(), got.Challenge.URL)
	b.attempt("captcha", solved, "ip", "198.51.100.1").wants(t, "challenge", "captcha_refused")
	b.attempt("captcha", solved, "factor", "otp").wants(t, "allow", "") // no solution needed, so it stays valid
	opened := b.attempt("captcha", solved)
	opened.wants(t, "allow", "")
	b.settle(opened.AttemptID, "error")
	b.attempt("captcha", solved).wants(t, "challenge", "captcha_refused")
	for _, none := range []string{"x", "{}", strings.Repeat("A", 20_000), "\x00"} {
		refused := b.attempt("captcha", none)
		refused.wants(t, "challenge", "captcha_refused")
	}
}

// TestLoginAnswersTellNoNames: responses do not reveal which names exist: attempts for two names, one of a user and one of nobody,
// get the same responses, byte by byte.
func TestLoginAnswersTellNoNames(t *testing.T) {
	waits := regexp.MustCompile(`"retry_after_ms":[1-9][0-9]*`)
	secrets := regexp.MustCompile(`"(attempt_id|device)":"[^"]+"|for=[A-Za-z0-9_.~%-]+`)
	var seen []string
	for _, name := range []string{"a user who is known", "nobody"} {
		b := setupLogin(t)
		var all strings.Builder
		for _, mode := range []string{"check", "reserve", "report", "report", "report", "check", "reserve"} {
			w := b.call("POST", attempts, attemptBody("name", name, "mode", mode))
			body := waits.ReplaceAllString(w.Body.String(), "")
			fmt.Fprintln(&all, w.Code, len(body), secrets.ReplaceAllString(body, "$1"))
			for _, field := range []string{"Content-Type", "Cache-Control"} {
				fmt.Fprintln(&all, w.Header()[field])
			}
		}
		seen = append(seen, all.String())
	}
	if seen[0] != seen[1] {
		t.Errorf("%s\n%s", seen[0], seen[1])
	}
}

func TestLoginRequestIDs(t *testing.T) {
	b := setupLogin(t)
	first := b.attempt("request_id", "r1")
	for range 5 {
		if got := b.attempt("request_id", "r1"); got.AttemptID != first.AttemptID || got.Decision != "allow" {
			t.Fatalf("%+v, want %+v", got, first)
		}
	}
	if got := b.attempt("request_id", "r2"); got.AttemptID == first.AttemptID || got.Decision != "allow" {
		t.Errorf("%+v", got)
	}
	for range 5 {
		b.fail(1, "name", "bob", "request_id", "r1").wants(t, "allow", "")
	}
}

func TestLoginHostile(t *testing.T) {
	b := setupLogin(t)
	for _, tt := range []struct{ body, at string }{
		{attemptBody("name", ""), "body.name"},
		{attemptBody("name", "  "), "body.name"},
		{attemptBody("name", "\u200b"), "body.name"},
		{attemptBody("name", strings.Repeat("x", 257)), "body.name"},
		{attemptBody("name", strings.Repeat("é", 257)), "body.name"},
		{attemptBody("name", "a\x00"), "body.name"},
		{attemptBody("name", "a\x7fb"), "body.name"},
		{attemptBody("name", "a\u0085b"), "body.name"},
		{`{"name":"a` + "\xff" + `","ip":"192.0.2.7"}`, "body"},
		{`{"name":"a\ud800","ip":"192.0.2.7"}`, "body"},
		{`{"name":1,"ip":"192.0.2.7"}`, "body.name"},
		{`{"ip":"192.0.2.7"}`, "body"},
		{`{"name":"ann"}`, "body"},
		{attemptBody("ip", ""), "body.ip"},
		{attemptBody("ip", "ann"), "body.ip"},
		{attemptBody("ip", "192.0.2.7:80"), "body.ip"},
		{attemptBody("ip", "192.0.2.0/24"), "body.ip"},
		{attemptBody("ip", "192.0.2.007"), "body.ip"},
		{attemptBody("ip", strings.Repeat("1", 256)), "body.ip"},
		{attemptBody("factor", ""), "body.factor"},
		{attemptBody("factor", "Password"), "body.factor"},
		{attemptBody("factor", "a:b"), "body.factor"},
		{attemptBody("factor", strings.Repeat("f", 33)), "body.factor"},
		{attemptBody("factor", "otp\n"), "body.factor"},
		{attemptBody("mode", "settle"), "body.mode"},
		{attemptBody("mode", ""), "body.mode"},
		{attemptBody("request_id", ""), "body.request_id"},
		{attemptBody("request_id", strings.Repeat("x", 256)), "body.request_id"},
		{attemptBody("request_id", strings.Repeat("é", 256)), "body.request_id"},
		{attemptBody("password", "hunter2"), "body.password"},
		{attemptBody("Name", "x"), "body.Name"},
		{`{}`, "body"},
		{`null`, "body"},
		{`[]`, "body"},
		{`x`, "body"},
	} {
		w := b.call("POST", attempts, tt.body)
		p := problemIn(t, w)
		if p.Status != 422 || p.Reason != "invalid" || len(p.Errors) == 0 || p.Errors[0].Location != tt.at {
			t.Errorf("%.60q: %s, want %s", tt.body, w.Body, tt.at)
		}
		if strings.Contains(w.Body.String(), "login:") {
			t.Errorf("%.60q: %s", tt.body, w.Body)
		}
	}
	for _, tt := range []string{"name=" + strings.Repeat("x", 256), "name=a%20b", "ip=2001:db8::1%25eth0", "ip=::ffff:192.0.2.7", "factor=" + strings.Repeat("f", 32)} {
		field, value, _ := strings.Cut(tt, "=")
		b.attempt(field, strings.ReplaceAll(strings.ReplaceAll(value, "%20", " "), "%25", "%"))
	}
	if p := problemIn(t, b.call("POST", attempts, attemptBody("captcha", strings.Repeat("x", 65<<10)))); p.Status != 413 {
		t.Errorf("%+v", p)
	}
	if p := problemIn(t, call(b.Internal(), "POST", attempts, attemptBody(), "Content-Type", "text/plain")); p.Status != 415 {
		t.Errorf("%+v", p)
	}
}

// awayLogin is a throttle that is unavailable. The cause contains the name.
type awayLogin struct{ loginhttp.Throttle }

func (awayLogin) Reserve(context.Context, login.Attempt) (login.Decision, error) {
	return login.Decision{}, fmt.Errorf("%w: captcha: dial tcp", login.ErrUnavailable)
}

func (awayLogin) Settle(context.Context, string, login.Result) (login.Settled, error) {
	return login.Settled{}, fmt.Errorf("some defect")
}

func TestLoginUnavailable(t *testing.T) {
	b := setupLogin(t, func(c *Config) { c.Login = awayLogin{c.Login} })
	w := b.call("POST", attempts, attemptBody())
	if p := problemIn(t, w); p.Status != 503 || p.Reason != "store_unavailable" || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "dial") {
		t.Errorf("%s", w.Body)
	}
	// The error is logged without the attempt's id, which is a secret: it could be used to settle the attempt.
	w = b.settle("the-id-of-an-attempt", "success")
	if p := problemIn(t, w); p.Status != 500 || !strings.Contains(b.logged.String(), "some defect") || strings.Contains(b.logged.String(), "the-id") {
		t.Errorf("%s\n%s", w.Body, b.logged)
	}
}
