package httpapi

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/tidegate/tidegate/internal/auth"
	"github.com/tidegate/tidegate/internal/auth/authtest"
)

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// TestBadJWTIs401: an invalid token is refused. It never makes its sender anonymous.
func TestBadJWTIs401(t *testing.T) {
	id, err := auth.NewJWT(auth.JWTOptions{Secret: authtest.Secret})
	if err != nil {
		t.Fatal(err)
	}
	var cause auth.JWTCause
	var logged strings.Builder
	b := setup(t, func(c *Config) {
		c.Identity, c.JWTRefused = id, func(of auth.JWTCause) { cause = of }
		c.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	good := authtest.Sign(t, jose.HS256, authtest.Secret, "", authtest.GoodClaims(nil))
	parts := strings.Split(good, ".")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	details := map[auth.JWTCause]string{
		auth.JWTAlgorithm: "The token is not accepted.", auth.JWTSignature: "The token is not accepted.",
		auth.JWTExpired: "The token has expired: exp is in the past.", auth.JWTSubject: "sub must be a string that is not empty.", auth.JWTNoExpiry: "exp is missing.",
		auth.JWTMalformed: "", // one of several
	}
	for name, value := range map[string]string{
		"alg none":           "Bearer " + segment(`{"alg":"none"}`) + "." + parts[1] + ".",
		"alg None":           "Bearer " + segment(`{"alg":"None"}`) + "." + parts[1] + "." + parts[2],
		"no alg":             "Bearer " + segment(`{}`) + "." + parts[1] + "." + parts[2],
		"HS512":              "Bearer " + authtest.Sign(t, jose.HS512, []byte(strings.Repeat("s", 64)), "", authtest.GoodClaims(nil)),
		"RS256":              "Bearer " + authtest.Sign(t, jose.RS256, rsaKey, "", authtest.GoodClaims(nil)),
		"another secret":     "Bearer " + authtest.Sign(t, jose.HS256, []byte(strings.Repeat("s", 64)), "", authtest.GoodClaims(nil)),
		"changed payload":    "Bearer " + parts[0] + "." + segment(`{"sub":"eve","exp":9999999999}`) + "." + parts[2],
		"no signature":       "Bearer " + parts[0] + "." + parts[1] + ".",
		"two parts":          "Bearer " + parts[0] + "." + parts[1],
		"garbage":            "Bearer {}",
		"empty":              "Bearer ",
		"only the scheme":    "Bearer",
		"another scheme":     "Basic YWRhOg==",
		"no scheme":          good,
		"100 kB":             "Bearer " + strings.Repeat("x", 100<<10),
		"crit":               "Bearer " + segment(`{"alg":"HS256","crit":["x"],"x":1}`) + "." + parts[1] + "." + parts[2],
		"NUL":                "Bearer " + good + "\x00",
		"expired":            "Bearer " + authtest.Sign(t, jose.HS256, authtest.Secret, "", authtest.GoodClaims(authtest.Claims{"exp": 1})),
		"crit is null":       "Bearer " + segment(`{"alg":"HS256","crit":null}`) + "." + parts[1] + "." + parts[2],
		"no exp":             "Bearer " + authtest.Sign(t, jose.HS256, authtest.Secret, "", authtest.GoodClaims(authtest.Claims{"exp": nil})),
		"sub is a number":    "Bearer " + authtest.Sign(t, jose.HS256, authtest.Secret, "", authtest.GoodClaims(authtest.Claims{"sub": 4711})),
		"exp beyond numbers": "Bearer " + authtest.Sign(t, jose.HS256, authtest.Secret, "", authtest.GoodClaims(authtest.Claims{"exp": 1e300})),
	} {
		cause = ""
		logged.Reset()
		w := call(b.Public(), "GET", "/v1/sales/flash", "", "Authorization", value)
		p := problemIn(t, w)
		if p.Status != 401 || w.Header().Get("WWW-Authenticate") != `Bearer error="invalid_token"` || p.Detail == "" || details[cause] != "" && p.Detail != details[cause] {
			t.Errorf("%s: %+v %v", name, p, w.Header())
		}
		if !slices.Contains(auth.JWTCauses, cause) || !strings.Contains(logged.String(), "cause="+string(cause)+" ") || !strings.Contains(logged.String(), "request_id=") ||
			strings.Contains(logged.String(), "4711") || strings.Contains(logged.String(), parts[2]) {
			t.Errorf("%s is counted as %q and logged as %s", name, cause, &logged)
		}
	}
	for name, fields := range map[string][]string{
		"good":               {"Authorization", "bearer " + good},
		"nobody":             {},
		"headers are idle":   {"X-User-ID", "ada"},
		"livez with a token": {"Authorization", "Bearer nonsense"},
	} {
		path, want := placePath, 401 // anonymous
		if strings.HasPrefix(name, "livez") {
			path, want = "/livez", 200
		} else if name == "good" {
			want = 200
		}
		if w := call(b.Public(), "GET", path, "", fields...); w.Code != want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
