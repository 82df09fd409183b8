package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tidegate/tidegate/internal/auth/authtest"
)

func segment(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func bearer(token string) *http.Request {
	return &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}
}

func TestJWTWithSecret(t *testing.T) {
	id, err := NewJWT(JWTOptions{Secret: authtest.Secret, Issuer: "shop", Audience: "tidegate"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, tt := range map[string]struct {
		change authtest.Claims
		want   string
		cause  JWTCause
	}{
		"valid in 29 seconds":  {authtest.Claims{"nbf": now.Add(29 * time.Second).Unix(), "iat": now.Add(29 * time.Second).Unix()}, "ada", ""},
		"good":                 {nil, "ada", ""},
		"several audiences":    {authtest.Claims{"aud": []string{"other", "tidegate"}}, "ada", ""},
		"expired":              {authtest.Claims{"exp": now.Add(-time.Second).Unix()}, "", JWTExpired},
		"no exp":               {authtest.Claims{"exp": nil}, "", JWTNoExpiry},
		"exp is text":          {authtest.Claims{"exp": "tomorrow"}, "", JWTMalformed},
		"wrong issuer":         {authtest.Claims{"iss": "thief"}, "", JWTIssuer},
		"no issuer":            {authtest.Claims{"iss": nil}, "", JWTIssuer},
		"wrong audience":       {authtest.Claims{"aud": "other"}, "", JWTAudience},
		"no audience":          {authtest.Claims{"aud": nil}, "", JWTAudience},
		"not yet valid":        {authtest.Claims{"nbf": now.Add(time.Hour).Unix()}, "", JWTNotYetValid},
		"issued in the future": {authtest.Claims{"iat": now.Add(time.Hour).Unix()}, "", JWTNotYetValid},
		"no subject":           {authtest.Claims{"sub": nil}, "", JWTSubject},
		"empty subject":        {authtest.Claims{"sub": ""}, "", JWTSubject},
		"subject is a number":  {authtest.Claims{"sub": 7}, "", JWTSubject},
		"tier is a list":       {authtest.Claims{"tier": []int{1}}, "", JWTMalformed},
	} {
		got, err := id.Identify(bearer(authtest.Sign(t, jose.HS256, authtest.Secret, "", authtest.GoodClaims(tt.change))), true)
		if got.User != tt.want || (err == nil) != (tt.want != "") || tt.want != "" && got.Tier != "gold" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if refused, _ := errors.AsType[*JWTError](err); tt.cause != "" && (refused == nil || refused.Cause != tt.cause || !errors.Is(err, ErrUnauthenticated)) {
			t.Errorf("%s: %v, want the cause %s", name, err, tt.cause)
		}
	}
}

func TestTwoJWTs(t *testing.T) {
	id, err := NewJWT(JWTOptions{Secret: authtest.Secret})
	if err != nil {
		t.Fatal(err)
	}
	good := authtest.Sign(t, jose.HS256, authtest.Secret, "", authtest.GoodClaims(nil))
	r := bearer(good)
	r.Header.Add("Authorization", "Bearer "+good)
	if _, err := id.Identify(r, true); err == nil {
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
		cause JWTCause // empty: it is good
	}{
		"RS256":                      {authtest.Sign(t, jose.RS256, rsaKey, "r", authtest.GoodClaims(nil)), ""},
		"ES256":                      {authtest.Sign(t, jose.ES256, ecKey, "e", authtest.GoodClaims(nil)), ""},
		"EdDSA":                      {authtest.Sign(t, jose.EdDSA, edKey, "d", authtest.GoodClaims(nil)), ""},
		"no kid":                     {authtest.Sign(t, jose.ES256, ecKey, "", authtest.GoodClaims(nil)), ""},
		"unknown kid":                {authtest.Sign(t, jose.ES256, ecKey, "x", authtest.GoodClaims(nil)), JWTSignature},
		"another's kid":              {authtest.Sign(t, jose.ES256, ecKey, "r", authtest.GoodClaims(nil)), JWTSignature},
		"another alg than the key's": {authtest.Sign(t, jose.PS256, rsaKey, "r", authtest.GoodClaims(nil)), JWTAlgorithm},
		"public key as a secret":     {authtest.Sign(t, jose.HS256, modulus, "r", authtest.GoodClaims(nil)), JWTAlgorithm},
		"expired":                    {authtest.Sign(t, jose.EdDSA, edKey, "d", authtest.GoodClaims(authtest.Claims{"exp": 1})), JWTExpired},
	} {
		got, err := id.Identify(bearer(tt.token), false)
		refused, _ := errors.AsType[*JWTError](err)
		if (err == nil) != (tt.cause == "") || err == nil && got.User != "ada" || err != nil && (refused == nil || refused.Cause != tt.cause) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func marshalled(t *testing.T, key jose.JSONWebKey) string {
	t.Helper()
	text, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// with returns a JWK with further members.
func with(t *testing.T, key, members string) string {
	t.Helper()
	var all map[string]any
	for _, part := range []string{key, "{" + members + "}"} {
		if err := json.Unmarshal([]byte(part), &all); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestBadKeys(t *testing.T) {
	weak, _ := rsa.GenerateKey(rand.Reader, 1024)
	other, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	file := filepath.Join(t.TempDir(), "jwks.json")
	write := func(keys ...string) {
		if err := os.WriteFile(file, []byte(`{"keys":[`+strings.Join(keys, ",")+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := marshalled(t, jose.JSONWebKey{Key: edKey.Public(), KeyID: "good"})
	for name, key := range map[string]string{
		"symmetric":       marshalled(t, jose.JSONWebKey{Key: authtest.Secret, KeyID: "bad"}),
		"private":         marshalled(t, jose.JSONWebKey{Key: edKey, KeyID: "bad"}),
		"short":           marshalled(t, jose.JSONWebKey{Key: &weak.PublicKey, KeyID: "bad"}),
		"other curve":     marshalled(t, jose.JSONWebKey{Key: &other.PublicKey, KeyID: "bad"}),
		"for encryption":  marshalled(t, jose.JSONWebKey{Key: edKey.Public(), KeyID: "bad", Use: "enc"}),
		"to encrypt":      with(t, good, `"kid":"bad","key_ops":["encrypt"]`),
		"no operations":   with(t, good, `"kid":"bad","key_ops":[]`),
		"operations text": with(t, good, `"kid":"bad","key_ops":"verify"`),
		"other algorithm": marshalled(t, jose.JSONWebKey{Key: edKey.Public(), KeyID: "bad", Algorithm: "ES256"}),
		"unknown type":    `{"kty":"future","kid":"bad","x":"AAAA"}`,
		"no type":         `{"kid":"bad"}`,
		"not on a curve":  `{"kty":"EC","crv":"P-256","kid":"bad","x":"AAAA","y":"AAAA"}`,
		"kid is a number": `{"kty":"OKP","kid":7}`,
		"not an object":   `7`,
	} {
		write(key)
		if _, err := NewJWT(JWTOptions{JWKSFile: file}); err == nil || !strings.Contains(err.Error(), "no key of the JWK set can be used") {
			t.Errorf("%s key alone: %v", name, err)
		}
		// Beside a good one it is skipped and logged once.
		write(key, good, key)
		var logged bytes.Buffer
		id, err := NewJWT(JWTOptions{JWKSFile: file, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if err != nil {
			t.Errorf("%s key beside a good one: %v", name, err)
			continue
		}
		write(key, good, `{"kty":"future","kid":"another"}`)
		if err := id.Load(t.Context()); err != nil {
			t.Error(err)
		}
		if keys := *id.keys.Load(); len(keys) != 1 || keys[0].KeyID != "good" {
			t.Errorf("%s key beside a good one: %v", name, keys)
		}
		const line = "a key of the JWK set is not used"
		if strings.Count(logged.String(), line) != 2 || strings.Count(logged.String(), "kid=another") != 1 || strings.Contains(logged.String(), base64.RawURLEncoding.EncodeToString(authtest.Secret)) {
			t.Errorf("%s key: logged %s", name, &logged)
		}
	}
	write(with(t, good, `"key_ops":["verify"],"use":"sig","alg":"EdDSA"`))
	if _, err := NewJWT(JWTOptions{JWKSFile: file}); err != nil {
		t.Error(err)
	}
	for name, content := range map[string]string{
		"no set": "", "a page": "<html>", "a list": "[]", "no member keys": "{}", "keys is null": `{"keys":null}`, "no key": `{"keys":[]}`,
		"too many": `{"keys":[` + strings.Repeat(good+",", maxKeys) + good + `]}`,
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := NewJWT(JWTOptions{JWKSFile: file}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	writeJWKS(t, file)
	for name, opts := range map[string]JWTOptions{
		"no keys":      {JWKSFile: file},
		"no file":      {JWKSFile: file + "x"},
		"nothing":      {},
		"both":         {JWKSFile: file, Secret: authtest.Secret},
		"both sources": {JWKSFile: file, JWKSURL: "https://id.example/keys"},
		"plain http":   {JWKSURL: "http://id.example/keys"},
		"short secret": {Secret: []byte("hunter2")},
	} {
		if _, err := NewJWT(opts); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func FuzzJWT(f *testing.F) {
	id, err := NewJWT(JWTOptions{Secret: authtest.Secret})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer " + authtest.Sign(f, jose.HS256, []byte(strings.Repeat("s", 32)), "", authtest.GoodClaims(nil)))
	f.Add("Bearer " + segment(`{"alg":"none"}`) + "." + segment(`{"sub":"eve"}`) + ".")
	f.Add("Bearer a.b.c.d.e")
	f.Fuzz(func(t *testing.T, value string) {
		if caller, err := id.Identify(&http.Request{Header: http.Header{"Authorization": {value}}}, true); err == nil {
			t.Fatalf("%q is %+v", value, caller)
		}
	})
}
