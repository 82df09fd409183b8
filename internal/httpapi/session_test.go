package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// memorySessions is the store that processes share.
type memorySessions struct {
	mu    sync.Mutex
	ended map[string]time.Duration
	err   error
}

func (m *memorySessions) End(_ context.Context, id string, left time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.ended[id] = left
	}
	return m.err
}

func (m *memorySessions) Ended(_ context.Context, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ended := m.ended[id]
	return ended, m.err
}

// signIn returns the cookie for a token.
func signIn(t *testing.T, h http.Handler, token string, fields ...string) *http.Cookie {
	t.Helper()
	w := call(h, "POST", "/session", `{"token":"`+token+`"}`, fields...)
	cookies := w.Result().Cookies()
	if w.Code != 200 || len(cookies) != 1 {
		t.Fatalf("%d %s %v", w.Code, w.Body, w.Header())
	}
	return cookies[0]
}

// by returns the fields of a request of the page.
func by(c *http.Cookie, fields ...string) []string {
	return append([]string{"Cookie", c.Name + "=" + c.Value, "Sec-Fetch-Site", "same-origin"}, fields...)
}

func TestTheCookie(t *testing.T) {
	h := setup(t, withPage, withTokens(t)).Internal()
	for name, tt := range map[string]struct {
		fields []string
		secure bool
	}{
		"plain":                {nil, false},
		"behind a TLS proxy":   {[]string{"X-Forwarded-Proto", "https"}, true},
		"a proxy that says no": {[]string{"X-Forwarded-Proto", "http"}, false},
		"by the page's origin": {[]string{"Host", "ops.example", "Origin", "https://ops.example", "Sec-Fetch-Site", "same-origin"}, true},
	} {
		c := signIn(t, h, "operator-token-of-tests", tt.fields...)
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*60*60 || c.Secure != tt.secure ||
			c.Secure != strings.HasPrefix(c.Name, "__Host-") {
			t.Errorf("%s: %v", name, c)
		}
		if strings.Contains(c.Value, "operator-token") {
			t.Errorf("the cookie holds the token: %v", c)
		}
	}
	for name, tt := range map[string]struct {
		body   string
		fields []string
		want   int
	}{
		"a wrong token":           {`{"token":"a-wrong-token-of-tests"}`, nil, 401},
		"a service's":             {`{"token":"admit-token-of-tests"}`, nil, 403},
		"Prometheus'":             {`{"token":"metrics-token-of-tests"}`, nil, 403},
		"none":                    {`{}`, nil, 422},
		"an empty one":            {`{"token":""}`, nil, 422},
		"a form of another page":  {`{"token":"operator-token-of-tests"}`, []string{"Origin", "https://evil.example"}, 403},
		"a fetch of another page": {`{"token":"operator-token-of-tests"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		w := call(h, "POST", "/session", tt.body, tt.fields...)
		if w.Code != tt.want || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s %v", name, w.Code, w.Body, w.Header())
		}
	}
}

func TestWhatASessionMayDo(t *testing.T) {
	b := setup(t, withPage, withTokens(t), overMemory(t))
	h := b.Internal()
	operator, viewer := signIn(t, h, "operator-token-of-tests"), signIn(t, h, "viewer-token-of-tests")
	for _, tt := range []struct {
		method, path     string
		operator, viewer int
	}{
		{"GET", "/v1/rules", 200, 200},
		{"GET", "/v1/bans", 200, 200},
		{"GET", "/v1/explain?user=ann", 200, 200},
		{"POST", "/v1/sales/flash/pause", 200, 403},
		{"DELETE", "/v1/bans/user/ann", 404, 403},
		{"GET", "/metrics", 200, 403},
	} {
		for who, c := range map[string]*http.Cookie{"operator": operator, "viewer": viewer} {
			want := map[string]int{"operator": tt.operator, "viewer": tt.viewer}[who]
			if w := call(h, tt.method, tt.path, "", by(c)...); w.Code != want {
				t.Errorf("%s %s by the %s: %d, want %d: %s", tt.method, tt.path, who, w.Code, want, w.Body)
			}
		}
		// The same requests from a page of another origin, or with a rebound host name.
		for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}, {"Host", "evil.example:8080"}} {
			if w := call(h, tt.method, tt.path, "", by(operator, from...)...); w.Code != 403 {
				t.Errorf("%s %s from %v: %d", tt.method, tt.path, from, w.Code)
			}
		}
		// Over plain HTTP a GET of the page has no more than a Referer, and one of another page may have nothing.
		cookie := []string{"Cookie", operator.Name + "=" + operator.Value}
		for want, from := range map[int][]string{tt.operator: {"Referer", "http://localhost:8080/"}, 403: nil} {
			if w := call(h, tt.method, tt.path, "", append(cookie, from...)...); w.Code != want {
				t.Errorf("%s %s from %v: %d, want %d", tt.method, tt.path, from, w.Code, want)
			}
		}
	}
	// Calls that change something although they are GETs accept no cookie.
	for _, path := range []string{"/v1/authz", "/v1/authz/shop", "/koala/rule/update?act=ask&uid=7"} {
		if w := call(h, "GET", path, "", by(operator, "X-Forwarded-Uri", "/shop")...); w.Code != 401 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	// A cookie of the same name that another host of the domain has set changes nothing.
	if w := call(h, "GET", "/v1/rules", "", by(operator, "Cookie", "tidegate_session=x; "+operator.Name+"="+operator.Value)...); w.Code != 200 {
		t.Errorf("beside another cookie: %d", w.Code)
	}
	// A token in a field takes precedence over a cookie.
	if w := call(h, "POST", "/v1/sales/flash/pause", "", by(operator, "X-Tidegate-Token", "viewer-token-of-tests")...); w.Code != 403 {
		t.Errorf("a viewer's token beside an operator's cookie: %d", w.Code)
	}
	if w := call(b.Public(), "GET", "/v1/rules", "", by(operator)...); w.Code != 404 {
		t.Errorf("in public: %d", w.Code)
	}
}

func TestSessionsEnd(t *testing.T) {
	shared := &memorySessions{ended: map[string]time.Duration{}}
	with := func(c *Config) { c.Sessions = shared }
	b, other := setup(t, withPage, withTokens(t), with), setup(t, withPage, withTokens(t), with)
	who := func(h http.Handler, c *http.Cookie) (s struct{ Name, Role string }) {
		t.Helper()
		w := call(h, "GET", "/session", "", by(c)...)
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return s
	}
	c := signIn(t, b.Internal(), "operator-token-of-tests")
	for range 2 { // at every process
		if s := who(other.Internal(), c); s.Name != "ops" || s.Role != "operator" {
			t.Errorf("%+v", s)
		}
	}
	if w := call(b.Internal(), "DELETE", "/session", "", by(c, "Sec-Fetch-Site", "cross-site")...); w.Code != 403 {
		t.Errorf("ended by another page: %d", w.Code)
	}
	for range 2 { // also again
		w := call(b.Internal(), "DELETE", "/session", "", by(c)...)
		if gone := w.Result().Cookies(); w.Code != 204 || len(gone) != 1 || gone[0].MaxAge >= 0 || gone[0].Value != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
	for _, h := range []http.Handler{b.Internal(), other.Internal()} {
		if w := call(h, "GET", "/v1/rules", "", by(c)...); w.Code != 401 {
			t.Errorf("after its end: %d", w.Code)
		}
		if s := who(h, c); s.Name != "" || s.Role != "" {
			t.Errorf("%+v", s)
		}
	}
	for _, left := range shared.ended {
		if left <= 0 || left > 12*time.Hour {
			t.Errorf("it is remembered for %v", left)
		}
	}

	// While the shared store is down sessions stay valid, and an ended one stays ended at the process that ended it.
	c = signIn(t, b.Internal(), "operator-token-of-tests")
	shared.err = errors.New("away")
	if w := call(b.Internal(), "GET", "/v1/rules", "", by(c)...); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(b.Internal(), "DELETE", "/session", "", by(c)...); w.Code != 503 || w.Header().Get("Set-Cookie") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := call(b.Internal(), "GET", "/v1/rules", "", by(c)...); w.Code != 401 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSessionsAndAChangeOfTheSecret(t *testing.T) {
	secret := func(now, before string) func(*Config) {
		return func(c *Config) {
			c.Secret, c.PreviousSecret = []byte(strings.Repeat(now, 32)), []byte(strings.Repeat(before, 32))
			if before == "" {
				c.PreviousSecret = nil
			}
		}
	}
	c := signIn(t, setup(t, withPage, withTokens(t), secret("a", "")).Internal(), "viewer-token-of-tests")
	for name, tt := range map[string]struct {
		change func(*Config)
		want   int
	}{
		"while it is changed": {secret("b", "a"), 200},
		"after it":            {secret("b", ""), 401},
	} {
		if w := call(setup(t, withPage, withTokens(t), tt.change).Internal(), "GET", "/v1/rules", "", by(c)...); w.Code != tt.want {
			t.Errorf("%s: %d, want %d", name, w.Code, tt.want)
		}
	}
}

func TestWithoutTokensNobodySignsIn(t *testing.T) {
	h := setup(t, withPage).Internal()
	if w := call(h, "GET", "/session", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"role":"operator"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(h, "POST", "/session", `{"token":"x"}`); w.Code != 405 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWrongTokensAreSlowedDown: guesses from one address are throttled on every route, and other addresses are not.
func TestWrongTokensAreSlowedDown(t *testing.T) {
	h := setup(t, withPage, withTokens(t)).Internal()
	if w := call(h, "GET", "/v1/rules", "", "X-Tidegate-Token", "operator-token-of-tests"); w.Code != 200 {
		t.Fatalf("%d", w.Code)
	}
	guess := func(i int, fields ...string) *httptest.ResponseRecorder {
		switch i % 3 {
		case 0:
			return call(h, "POST", "/session", `{"token":"a-wrong-token-of-tests"}`, fields...)
		case 1:
			return call(h, "GET", "/v1/authz/x", "", append(fields, "Authorization", basic("x", "a-wrong-token-of-tests"))...)
		}
		return call(h, "GET", "/v1/rules", "", append(fields, "X-Tidegate-Token", "a-wrong-token-of-tests")...)
	}
	for i := range 60 {
		if w := guess(i); w.Code != 401 {
			t.Fatalf("guess %d: %d", i, w.Code)
		}
	}
	for i := range 3 {
		if p := problemIn(t, guess(i)); p.Status != 429 || p.Reason != "rate_limited" {
			t.Errorf("%+v", p)
		}
		if w := guess(i, "Remote", "127.0.0.2:40000"); w.Code != 401 {
			t.Errorf("another address: %d", w.Code)
		}
	}
	if w := guess(2); w.Header().Get("Retry-After") == "" {
		t.Errorf("%v", w.Header())
	}
	for _, token := range []string{"operator-token-of-tests", "viewer-token-of-tests"} { // the other one was never sent from this address
		if w := call(h, "GET", "/v1/rules", "", "X-Tidegate-Token", token); w.Code != 200 {
			t.Errorf("%s: %d", token, w.Code)
		}
	}
	if w := call(h, "GET", "/v1/rules", ""); w.Code != 401 {
		t.Errorf("no token is no guess: %d", w.Code)
	}
}
