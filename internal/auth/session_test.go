package auth

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/auth/authtest"
	"github.com/tidegate/tidegate/internal/seal"
)

// signedIn makes a guard, and a request with the cookie of a token's session.
func signedIn(t *testing.T, text string) (g *Guard, r *http.Request) {
	t.Helper()
	tokens, err := LoadTokens(authtest.WriteTokens(t, authtest.TokenList), false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	g = NewGuard(tokens, NewSessions(tokens, seal.NewKeys([]byte(strings.Repeat("k", 32)), nil), nil), nil)
	r = httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	found, _ := tokens.find(text)
	cookie, _ := g.sessions.Begin(r, &found)
	pair, _, _ := strings.Cut(cookie, ";")
	r.Header.Set("Cookie", pair)
	return g, r
}

func TestForgedSessions(t *testing.T) {
	g, r := signedIn(t, "viewer-token-of-tests")
	_, good, _ := strings.Cut(r.Header.Get("Cookie"), "=")
	payload, mac, _ := strings.Cut(good, ".")
	operator, _ := g.tokens.find("operator-token-of-tests")
	keys := g.sessions.keys
	expired := Session{ID: "x", Token: sessionToken(keys[0], &operator), Host: "example.com", Expires: time.Now().Unix()}
	unknown, valid := expired, expired
	unknown.Token, unknown.Expires, valid.Expires = "x", time.Now().Add(time.Hour).Unix(), time.Now().Add(time.Hour).Unix()
	another := base64.RawURLEncoding.EncodeToString([]byte(`{"i":"x","t":"x","h":"example.com","e":99999999999}`))
	for name, value := range map[string]string{
		"empty":                "",
		"no signature":         payload,
		"an empty signature":   payload + ".",
		"another payload":      another + "." + mac,
		"a longer one":         good + "x",
		"expired":              keys.Seal(sessionUse, expired),
		"of an unknown token":  keys.Seal(sessionUse, unknown),
		"sealed for a captcha": keys.Seal("captcha context", valid),
		"the token itself":     "operator-token-of-tests",
	} {
		r.Header.Set("Cookie", SessionCookie+"="+value)
		if grant, err := g.Check(r, Route{}); !errors.Is(err, ErrUnauthenticated) || grant.Role != "" {
			t.Errorf("%s: %+v %v", name, grant, err)
		}
	}
	for value, want := range map[string]Role{good: RoleViewer, keys.Seal(sessionUse, valid): RoleOperator} {
		r.Header.Set("Cookie", SessionCookie+"="+value)
		if grant, err := g.Check(r, Route{}); err != nil || grant.Role != want {
			t.Errorf("%+v %v, want the role %s", grant, err, want)
		}
	}
}

// TestSessionsFollowTheirToken: a session has the rights of its token.
func TestSessionsFollowTheirToken(t *testing.T) {
	g, r := signedIn(t, "operator-token-of-tests")
	for _, step := range []struct {
		list string
		want Role
	}{
		{"- {name: another-name, role: operator, token: operator-token-of-tests}", RoleOperator},
		{"- {name: ops, role: viewer, token: operator-token-of-tests}", RoleViewer},
		{"- {name: ops, role: operator, token: another-token-of-tests}", ""},
		{"- {name: ops, role: operator, token: operator-token-of-tests}", RoleOperator},
	} {
		if err := g.tokens.load([]byte(step.list)); err != nil {
			t.Fatal(err)
		}
		if grant, err := g.Check(r, Route{}); grant.Role != step.want || (err == nil) != (step.want != "") {
			t.Errorf("%s: %+v %v, want the role %q", step.list, grant, err, step.want)
		}
	}
}

// What is signed outlives a deployment: a change here voids sessions.
func TestSessionTokens(t *testing.T) {
	keys := seal.NewKeys([]byte("a secret of the tests, 32 bytes."), nil)
	if got := sessionToken(keys[0], &Token{}); got != "hn0jdRjlVk1gqTBtGaTElA" {
		t.Error(got)
	}
}
