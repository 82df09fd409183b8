package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// startWith runs the program with variables of the environment.
func startWith(t *testing.T, vars map[string]string) *servetest.Program {
	t.Helper()
	folder := t.TempDir()
	p := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		return run(ctx, arguments(folder), func(name string) string { return vars[name] }, io.Discard, stderr)
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.URL("internal")+"/readyz", "") })
	return p
}

type jwtClaims map[string]any

func with(base jwtClaims, change jwtClaims) jwtClaims {
	c := maps.Clone(base)
	for name, value := range change {
		if value == nil {
			delete(c, name)
		} else {
			c[name] = value
		}
	}
	return c
}

func encoded(v any) string {
	text, ok := v.(string)
	if !ok {
		b, _ := json.Marshal(v) // strings and numbers: cannot fail
		text = string(b)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// signed makes a token by hand, so that its header may say anything.
func signed(header, payload any, sign func(input []byte) []byte) string {
	input := encoded(header) + "." + encoded(payload)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(input)))
}

func byHMAC(key []byte) func([]byte) []byte {
	return func(input []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write(input)
		return mac.Sum(nil)
	}
}

func byRSA(key *rsa.PrivateKey) func([]byte) []byte {
	return func(input []byte) []byte {
		sum := sha256.Sum256(input)
		signature, _ := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
		return signature
	}
}

func byECDSA(key *ecdsa.PrivateKey) func([]byte) []byte {
	return func(input []byte) []byte {
		sum := sha256.Sum256(input)
		r, s, _ := ecdsa.Sign(rand.Reader, key, sum[:])
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
}

func byEd25519(key ed25519.PrivateKey) func([]byte) []byte {
	return func(input []byte) []byte { return ed25519.Sign(key, input) }
}

func constant(signature []byte) func([]byte) []byte { return func([]byte) []byte { return signature } }

type keys struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey
}

func newKeys(t *testing.T) (k keys) {
	t.Helper()
	var errs [3]error
	k.rsa, errs[0] = rsa.GenerateKey(rand.Reader, 2048)
	k.ec, errs[1] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, k.ed, errs[2] = ed25519.GenerateKey(rand.Reader)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// write replaces the file atomically, as key rotation does.
func (k keys) write(t *testing.T, path, generation string) {
	t.Helper()
	content, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: k.rsa.Public(), KeyID: "rsa" + generation, Algorithm: "RS256", Use: "sig"},
		{Key: k.ec.Public(), KeyID: "ec" + generation},
		{Key: k.ed.Public(), KeyID: "ed" + generation},
	}})
	if err == nil {
		err = os.WriteFile(path+".new", content, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tokens are good ones, one for each algorithm.
func (k keys) tokens(generation string, payload jwtClaims) map[string]string {
	header := func(alg, kid string) jwtClaims { return jwtClaims{"alg": alg, "kid": kid + generation, "typ": "JWT"} }
	return map[string]string{
		"RS256": signed(header("RS256", "rsa"), payload, byRSA(k.rsa)),
		"ES256": signed(header("ES256", "ec"), payload, byECDSA(k.ec)),
		"EdDSA": signed(header("EdDSA", "ed"), payload, byEd25519(k.ed)),
	}
}

// buyerOf is the user of an order, as the shop's back end sees it.
func buyerOf(t *testing.T, p *servetest.Program, placed servetest.Answer) string {
	t.Helper()
	var o struct {
		OrderID string `json:"order_id"`
		User    string `json:"user"`
	}
	placed.Into(t, &o)
	servetest.Call("GET", p.URL("internal")+"/v1/orders/"+o.OrderID, "").Into(t, &o)
	return o.User
}

// Keys of a file, on the real program: tokens of every algorithm are believed, also after the keys were changed, and nothing else is.
func jwtsOfAFileOfKeys(g *group) {
	t := g.T
	file := filepath.Join(t.TempDir(), "jwks.json")
	k, other := newKeys(t), newKeys(t)
	k.write(t, file, "1")
	p := startWith(t, map[string]string{"IDENTITY": "jwt", "JWT_JWKS_FILE": file, "JWT_ISSUER": "https://id.shop.example", "JWT_AUDIENCE": "tidegate"})
	putOnSale(t, p, "concert", 100)
	order := func(token string, fields ...string) servetest.Answer {
		return servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, append([]string{"Authorization", "Bearer " + token}, fields...)...)
	}
	now := time.Now()
	good := jwtClaims{"sub": "ada", "iss": "https://id.shop.example", "aud": "tidegate", "exp": now.Add(time.Hour).Unix()}

	t.Run("good", func(t *testing.T) {
		for alg, token := range k.tokens("1", with(good, jwtClaims{"sub": "ada-of-the-file"})) {
			// A user named in a header field beside the token is ignored.
			if a := order(token, "X-User-ID", "eve"); a.Status != http.StatusAccepted || buyerOf(t, p, a) != "ada-of-the-file" {
				t.Errorf("%s: %v", alg, a)
			}
		}
		for name, change := range map[string]jwtClaims{
			"several audiences": {"aud": []string{"other", "tidegate"}},
			"valid from now":    {"nbf": now.Unix(), "iat": now.Unix()},
		} {
			if a := order(k.tokens("1", with(good, change))["ES256"]); a.Status != http.StatusAccepted {
				t.Errorf("%s: %v", name, a)
			}
		}
		if a := order(signed(jwtClaims{"alg": "EdDSA"}, good, byEd25519(k.ed))); a.Status != http.StatusAccepted {
			t.Errorf("without a kid: %v", a)
		}
	})

	der, err := x509.MarshalPKIXPublicKey(k.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	set, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := json.Marshal(jose.JSONWebKey{Key: other.ec.Public()})
	if err != nil {
		t.Fatal(err)
	}
	es := func(header jwtClaims) string {
		return signed(with(jwtClaims{"alg": "ES256", "kid": "ec1"}, header), good, byECDSA(k.ec))
	}
	forged := func(header jwtClaims) string { return signed(header, good, byECDSA(other.ec)) }
	head, rest, _ := strings.Cut(es(nil), ".")
	payload, signature, _ := strings.Cut(rest, ".")
	attacks := map[string]string{
		"HS256 with an empty key":          signed(jwtClaims{"alg": "HS256"}, good, byHMAC(nil)),
		"HS256 with an empty key, kid":     signed(jwtClaims{"alg": "HS256", "kid": "rsa1"}, good, byHMAC(nil)),
		"HS256 with the public key as PEM": signed(jwtClaims{"alg": "HS256", "kid": "rsa1"}, good, byHMAC(public)),
		"HS256 with the public key as DER": signed(jwtClaims{"alg": "HS256", "kid": "rsa1"}, good, byHMAC(der)),
		"HS256 with the modulus":           signed(jwtClaims{"alg": "HS256", "kid": "rsa1"}, good, byHMAC(k.rsa.N.Bytes())),
		"HS256 with the file of keys":      signed(jwtClaims{"alg": "HS256"}, good, byHMAC(set)),
		"HS256 with the Ed25519 key":       signed(jwtClaims{"alg": "HS256", "kid": "ed1"}, good, byHMAC(k.ed.Public().(ed25519.PublicKey))),
		"RS256, said to be HMAC":           signed(jwtClaims{"alg": "RS256", "kid": "rsa1"}, good, byHMAC(public)),
		"EdDSA, with an empty HMAC":        signed(jwtClaims{"alg": "EdDSA", "kid": "ed1"}, good, byHMAC(nil)),
		"PS256":                            signed(jwtClaims{"alg": "PS256", "kid": "rsa1"}, good, byRSA(k.rsa)),
		"RS256 with the key of ES256":      signed(jwtClaims{"alg": "RS256", "kid": "ec1"}, good, byECDSA(k.ec)),
		"alg in small letters":             es(jwtClaims{"alg": "es256"}),
		"alg twice":                        signed(`{"alg":"none","alg":"ES256","kid":"ec1"}`, with(good, jwtClaims{"sub": "eve"}), constant(nil)),
		"none":                             signed(jwtClaims{"alg": "none"}, good, constant(nil)),
		"None":                             signed(jwtClaims{"alg": "None"}, good, constant(nil)),
		"none, with a signature":           signed(jwtClaims{"alg": "none"}, good, byECDSA(k.ec)),
		"no alg":                           signed(jwtClaims{}, good, byECDSA(k.ec)),
		"no signature":                     head + "." + payload + ".",
		"two parts":                        head + "." + payload,
		"a signature of zeros":             signed(jwtClaims{"alg": "ES256", "kid": "ec1"}, good, constant(make([]byte, 64))),
		"a signature in DER": signed(jwtClaims{"alg": "ES256", "kid": "ec1"}, good, func(input []byte) []byte {
			sum := sha256.Sum256(input)
			s, _ := ecdsa.SignASN1(rand.Reader, k.ec, sum[:])
			return s
		}),
		"another payload":             head + "." + encoded(with(good, jwtClaims{"sub": "eve"})) + "." + signature,
		"another's key":               forged(jwtClaims{"alg": "ES256", "kid": "ec1"}),
		"another's key, no kid":       forged(jwtClaims{"alg": "ES256"}),
		"unknown kid":                 es(jwtClaims{"kid": "ec9"}),
		"kid of another key":          es(jwtClaims{"kid": "rsa1"}),
		"kid is a path":               signed(jwtClaims{"alg": "HS256", "kid": "../../../../dev/null"}, good, byHMAC(nil)),
		"kid is SQL":                  signed(jwtClaims{"alg": "HS256", "kid": "x' UNION SELECT ''--"}, good, byHMAC(nil)),
		"kid is a number":             es(jwtClaims{"kid": 1}),
		"jwk in the header":           signed(fmt.Sprintf(`{"alg":"ES256","jwk":%s}`, foreign), good, byECDSA(other.ec)),
		"jwk in the header, good kid": signed(fmt.Sprintf(`{"alg":"ES256","kid":"ec1","jwk":%s}`, foreign), good, byECDSA(other.ec)),
		"jku":                         forged(jwtClaims{"alg": "ES256", "jku": "http://127.0.0.1:1/jwks.json"}),
		"x5u":                         forged(jwtClaims{"alg": "ES256", "x5u": "http://127.0.0.1:1/cert.pem"}),
		"x5c":                         forged(jwtClaims{"alg": "ES256", "x5c": []string{"AAAA"}}),
		"crit":                        es(jwtClaims{"crit": []string{"x"}, "x": 1}),
		"crit of what is known":       es(jwtClaims{"crit": []string{"exp"}, "exp": 1}),
		"empty crit":                  es(jwtClaims{"crit": []string{}}),
		"crit is null":                es(jwtClaims{"crit": json.RawMessage("null")}),
		"b64 is false":                es(jwtClaims{"b64": false, "crit": []string{"b64"}}),
		"JSON serialization":          fmt.Sprintf(`{"payload":%q,"protected":%q,"signature":%q}`, payload, head, signature),
		"a JWE":                       encoded(jwtClaims{"alg": "dir", "enc": "A128GCM"}) + "..AAAA.AAAA.AAAA",
		"no JSON":                     signed(jwtClaims{"alg": "ES256", "kid": "ec1"}, "sub=ada", byECDSA(k.ec)),
		"a list":                      signed(jwtClaims{"alg": "ES256", "kid": "ec1"}, `["ada"]`, byECDSA(k.ec)),
		"null":                        signed(jwtClaims{"alg": "ES256", "kid": "ec1"}, `null`, byECDSA(k.ec)),
		"a token too many":            es(nil) + " " + es(nil),
		"nothing":                     "",
	}
	for name, change := range map[string]jwtClaims{
		"expired":              {"exp": now.Add(-time.Second).Unix()},
		"no exp":               {"exp": nil},
		"exp is null":          {"exp": json.RawMessage("null")},
		"exp is 0":             {"exp": 0},
		"exp is text":          {"exp": "2999-01-01"},
		"exp is beyond time":   {"exp": 1e300},
		"exp is negative":      {"exp": -1},
		"not valid yet":        {"nbf": now.Add(time.Hour).Unix()},
		"nbf is text":          {"nbf": "now"},
		"issued in the future": {"iat": now.Add(time.Hour).Unix()},
		"another issuer":       {"iss": "https://evil.example"},
		"issuer as a prefix":   {"iss": "https://id.shop.example.evil.example"},
		"no issuer":            {"iss": nil},
		"issuer is a list":     {"iss": []string{"https://id.shop.example"}},
		"another audience":     {"aud": "other"},
		"no audience":          {"aud": nil},
		"empty audience":       {"aud": []string{}},
		"no subject":           {"sub": nil},
		"empty subject":        {"sub": ""},
		"subject is a number":  {"sub": 7},
		"subject is a list":    {"sub": []string{"ada"}},
		"tier is a number":     {"tier": 1},
	} {
		attacks[name] = k.tokens("1", with(good, change))["ES256"]
	}
	for name, token := range attacks {
		g.try(name, func(t *testing.T) {
			a := order(token, "X-User-ID", "ada", "Idempotency-Key", "an-anonymous-key-of-22+")
			if a.Status != http.StatusUnauthorized || !strings.Contains(string(a.Body), `"unauthenticated"`) {
				t.Error(a)
			}
		})
	}

	t.Run("rotation", func(t *testing.T) {
		old, fresh := k.tokens("1", good), other.tokens("2", good)
		for alg, token := range fresh {
			if a := order(token); a.Status != http.StatusUnauthorized {
				t.Errorf("%s before its key is there: %v", alg, a)
			}
		}
		if err := os.WriteFile(file, []byte("not a set of keys"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.Logged("not reloaded, the last good content stays in force")
		for alg, token := range old {
			if a := order(token); a.Status != http.StatusAccepted {
				t.Errorf("%s, with a file that does not load: %v", alg, a)
			}
		}
		other.write(t, file, "2")
		servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return order(fresh["ES256"]) })
		for alg := range fresh {
			if a := order(fresh[alg]); a.Status != http.StatusAccepted {
				t.Errorf("%s by its new key: %v", alg, a)
			}
			if a := order(old[alg]); a.Status != http.StatusUnauthorized {
				t.Errorf("%s by a key that has gone: %v", alg, a)
			}
		}
	})
}

// The same with a secret: no other key and no other algorithm signs.
func jwtsOfASecret(g *group) {
	t := g.T
	secret := []byte(rand.Text() + rand.Text())
	p := startWith(t, map[string]string{"IDENTITY": "jwt", "JWT_SECRET": string(secret)})
	putOnSale(t, p, "concert", 100)
	k := newKeys(t)
	good := jwtClaims{"sub": "ada", "exp": time.Now().Add(time.Hour).Unix()}
	for name, tt := range map[string]struct {
		token string
		want  int
	}{
		"HS256":             {signed(jwtClaims{"alg": "HS256"}, good, byHMAC(secret)), http.StatusAccepted},
		"an empty key":      {signed(jwtClaims{"alg": "HS256"}, good, byHMAC(nil)), http.StatusUnauthorized},
		"another key":       {signed(jwtClaims{"alg": "HS256"}, good, byHMAC([]byte("another"))), http.StatusUnauthorized},
		"called HS384":      {signed(jwtClaims{"alg": "HS384"}, good, byHMAC(secret)), http.StatusUnauthorized},
		"none":              {signed(jwtClaims{"alg": "none"}, good, constant(nil)), http.StatusUnauthorized},
		"RS256":             {signed(jwtClaims{"alg": "RS256"}, good, byRSA(k.rsa)), http.StatusUnauthorized},
		"jwk":               {signed(jwtClaims{"alg": "HS256", "jwk": jwtClaims{"kty": "oct", "k": ""}}, good, byHMAC(nil)), http.StatusUnauthorized},
		"another typ":       {signed(jwtClaims{"alg": "HS256", "typ": "at+jwt"}, good, byHMAC(secret)), http.StatusAccepted},
		"a pass":            {signed(jwtClaims{"alg": "HS256", "typ": "tidegate-pass+jwt"}, good, byHMAC(secret)), http.StatusUnauthorized},
		"a receipt":         {signed(jwtClaims{"alg": "HS256", "typ": "application/Tidegate-Receipt+JWT"}, good, byHMAC(secret)), http.StatusUnauthorized},
		"crit":              {signed(jwtClaims{"alg": "HS256", "crit": []string{"x"}, "x": 1}, good, byHMAC(secret)), http.StatusUnauthorized},
		"expired":           {signed(jwtClaims{"alg": "HS256"}, with(good, jwtClaims{"exp": 1}), byHMAC(secret)), http.StatusUnauthorized},
		"without a padding": {strings.TrimRight(signed(jwtClaims{"alg": "HS256"}, good, byHMAC(secret)), "=") + "=", http.StatusUnauthorized},
	} {
		g.try("with a secret: "+name, func(t *testing.T) {
			a := servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "Authorization", "Bearer "+tt.token)
			if a.Status != tt.want {
				t.Error(a)
			}
		})
	}
}
