package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
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

func TestBadKeys(t *testing.T) {
	weak, _ := rsa.GenerateKey(rand.Reader, 1024)
	other, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	file := filepath.Join(t.TempDir(), "jwks.json")
	for name, key := range map[string]jose.JSONWebKey{
		"symmetric":      {Key: authtest.Secret},
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
		"both":         {JWKSFile: file, Secret: authtest.Secret},
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
