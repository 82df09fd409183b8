package httpapi

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

var jwtSecret = []byte("an HS256 secret of 32 bytes or more")

type claims map[string]any

func goodClaims(change claims) claims {
	c := claims{"sub": "ada", "tier": "gold", "iss": "shop", "aud": "tidegate", "exp": time.Now().Add(time.Hour).Unix()}
	for k, v := range change {
		if v == nil {
			delete(c, k)
		} else {
			c[k] = v
		}
	}
	return c
}

func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, c claims) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jwt.Signed(signer).Claims(map[string]any(c)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func bearer(token string) *http.Request {
	return &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}
}

func TestJWTWithSecret(t *testing.T) {
	id, err := NewJWT(JWTOptions{Secret: jwtSecret, Issuer: "shop", Audience: "tidegate"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, tt := range map[string]struct {
		change claims
		want   string
	}{
		"good":                 {nil, "ada"},
		"several audiences":    {claims{"aud": []string{"other", "tidegate"}}, "ada"},
		"expired":              {claims{"exp": now.Add(-time.Second).Unix()}, ""},
		"no exp":               {claims{"exp": nil}, ""},
		"exp is text":          {claims{"exp": "tomorrow"}, ""},
		"wrong issuer":         {claims{"iss": "thief"}, ""},
		"no issuer":            {claims{"iss": nil}, ""},
		"wrong audience":       {claims{"aud": "other"}, ""},
		"no audience":          {claims{"aud": nil}, ""},
		"not yet valid":        {claims{"nbf": now.Add(time.Hour).Unix()}, ""},
		"issued in the future": {claims{"iat": now.Add(time.Hour).Unix()}, ""},
		"no subject":           {claims{"sub": nil}, ""},
		"empty subject":        {claims{"sub": ""}, ""},
		"subject is a number":  {claims{"sub": 7}, ""},
		"tier is a list":       {claims{"tier": []int{1}}, ""},
	} {
		got, err := id.identify(bearer(sign(t, jose.HS256, jwtSecret, "", goodClaims(tt.change))), true)
		if got.User != tt.want || (err == nil) != (tt.want != "") || tt.want != "" && got.Tier != "gold" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestBadJWTIs401: an invalid token is refused. It never makes its sender anonymous.
func TestBadJWTIs401(t *testing.T) {
	id, err := NewJWT(JWTOptions{Secret: jwtSecret})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, func(c *Config) { c.Identity = id })
	good := sign(t, jose.HS256, jwtSecret, "", goodClaims(nil))
	parts := strings.Split(good, ".")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"alg none":           "Bearer " + segment(`{"alg":"none"}`) + "." + parts[1] + ".",
		"alg None":           "Bearer " + segment(`{"alg":"None"}`) + "." + parts[1] + "." + parts[2],
		"no alg":             "Bearer " + segment(`{}`) + "." + parts[1] + "." + parts[2],
		"HS512":              "Bearer " + sign(t, jose.HS512, []byte(strings.Repeat("s", 64)), "", goodClaims(nil)),
		"RS256":              "Bearer " + sign(t, jose.RS256, rsaKey, "", goodClaims(nil)),
		"another secret":     "Bearer " + sign(t, jose.HS256, []byte(strings.Repeat("s", 64)), "", goodClaims(nil)),
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
		"expired":            "Bearer " + sign(t, jose.HS256, jwtSecret, "", goodClaims(claims{"exp": 1})),
		"exp beyond numbers": "Bearer " + sign(t, jose.HS256, jwtSecret, "", goodClaims(claims{"exp": 1e300})),
	} {
		w := call(b.Public(), "GET", "/v1/sales/flash", "", "Authorization", value)
		if p := problemIn(t, w); p.Status != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %+v", name, p)
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
	r := bearer(good)
	r.Header.Add("Authorization", "Bearer "+good)
	if _, err := id.identify(r, true); err == nil {
		t.Error("two tokens were one too many")
	}
}

func writeJWKS(t testing.TB, path string, keys ...jose.JSONWebKey) {
	t.Helper()
	content, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestJWTWithKeys(t *testing.T) {
	rsaKey, _ := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	edPublic, edKey, _ := ed25519.GenerateKey(rand.Reader)
	file := filepath.Join(t.TempDir(), "jwks.json")
	writeJWKS(t, file,
		jose.JSONWebKey{Key: &rsaKey.PublicKey, KeyID: "r", Algorithm: "RS256", Use: "sig"},
		jose.JSONWebKey{Key: &ecKey.PublicKey, KeyID: "e"},
		jose.JSONWebKey{Key: edPublic, KeyID: "d"})
	id, err := NewJWT(JWTOptions{JWKSFile: file})
	if err != nil {
		t.Fatal(err)
	}
	modulus := rsaKey.PublicKey.N.Bytes()
	for name, tt := range map[string]struct {
		token string
		good  bool
	}{
		"RS256":                      {sign(t, jose.RS256, rsaKey, "r", goodClaims(nil)), true},
		"ES256":                      {sign(t, jose.ES256, ecKey, "e", goodClaims(nil)), true},
		"EdDSA":                      {sign(t, jose.EdDSA, edKey, "d", goodClaims(nil)), true},
		"no kid":                     {sign(t, jose.ES256, ecKey, "", goodClaims(nil)), true},
		"unknown kid":                {sign(t, jose.ES256, ecKey, "x", goodClaims(nil)), false},
		"another's kid":              {sign(t, jose.ES256, ecKey, "r", goodClaims(nil)), false},
		"another alg than the key's": {sign(t, jose.PS256, rsaKey, "r", goodClaims(nil)), false},
		"public key as a secret":     {sign(t, jose.HS256, modulus, "r", goodClaims(nil)), false},
		"expired":                    {sign(t, jose.EdDSA, edKey, "d", goodClaims(claims{"exp": 1})), false},
	} {
		got, err := id.identify(bearer(tt.token), false)
		if (err == nil) != tt.good || tt.good && got.User != "ada" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestBadKeys(t *testing.T) {
	weak, _ := rsa.GenerateKey(rand.Reader, 1024)
	other, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	file := filepath.Join(t.TempDir(), "jwks.json")
	for name, key := range map[string]jose.JSONWebKey{
		"symmetric":      {Key: jwtSecret},
		"private":        {Key: edKey},
		"short":          {Key: &weak.PublicKey},
		"other curve":    {Key: &other.PublicKey},
		"for encryption": {Key: edKey.Public(), Use: "enc"},
	} {
		writeJWKS(t, file, key)
		if _, err := NewJWT(JWTOptions{JWKSFile: file}); err == nil {
			t.Errorf("%s key was taken", name)
		}
	}
	writeJWKS(t, file)
	for name, opts := range map[string]JWTOptions{
		"no keys":      {JWKSFile: file},
		"no file":      {JWKSFile: file + "x"},
		"nothing":      {},
		"both":         {JWKSFile: file, Secret: jwtSecret},
		"short secret": {Secret: []byte("hunter2")},
	} {
		if _, err := NewJWT(opts); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func FuzzJWT(f *testing.F) {
	id, err := NewJWT(JWTOptions{Secret: jwtSecret})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer " + sign(f, jose.HS256, []byte(strings.Repeat("s", 32)), "", goodClaims(nil)))
	f.Add("Bearer " + segment(`{"alg":"none"}`) + "." + segment(`{"sub":"eve"}`) + ".")
	f.Add("Bearer a.b.c.d.e")
	f.Fuzz(func(t *testing.T, value string) {
		if caller, err := id.identify(&http.Request{Header: http.Header{"Authorization": {value}}}, true); err == nil {
			t.Fatalf("%q is %+v", value, caller)
		}
	})
}
