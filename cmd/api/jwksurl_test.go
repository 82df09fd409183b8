package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// keycloak is an issuer as Keycloak is by default: its set has a key for encryption beside the one for signatures.
type keycloak struct {
	signing, encryption *rsa.PrivateKey
	kid                 string
}

func newKeycloak(t *testing.T, kid string) *keycloak {
	t.Helper()
	signing, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	encryption, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &keycloak{signing, encryption, kid}
}

// jwk is a key with its certificate, in the form of Keycloak 26.
func jwk(t *testing.T, key *rsa.PrivateKey, kid, use, alg string) map[string]any {
	t.Helper()
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	of1, of256 := sha1.Sum(cert), sha256.Sum256(cert)
	text := base64.RawURLEncoding.EncodeToString
	return map[string]any{
		"kid": kid, "kty": "RSA", "alg": alg, "use": use, "n": text(key.N.Bytes()), "e": "AQAB",
		"x5c": []string{base64.StdEncoding.EncodeToString(cert)}, "x5t": text(of1[:]), "x5t#S256": text(of256[:]),
	}
}

func (k *keycloak) set(t *testing.T) string {
	t.Helper()
	content, err := json.Marshal(map[string]any{"keys": []any{
		jwk(t, k.encryption, "enc"+k.kid, "enc", "RSA-OAEP"), jwk(t, k.signing, "sig"+k.kid, "sig", "RS256"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func (k *keycloak) token(user string) string {
	return signed(jwtClaims{"alg": "RS256", "typ": "JWT", "kid": "sig" + k.kid}, jwtClaims{"sub": user, "exp": time.Now().Add(time.Hour).Unix()}, byRSA(k.signing))
}

// byEncryptionKey signs with the key that is not for signatures.
func (k *keycloak) byEncryptionKey(user string) string {
	return signed(jwtClaims{"alg": "RS256", "kid": "enc" + k.kid}, jwtClaims{"sub": user, "exp": time.Now().Add(time.Hour).Unix()}, byRSA(k.encryption))
}

// TestJWKSURL: keys of a URL, on the real program. It waits for the issuer at the start, follows a change of keys without a refused user, and
// keeps the last good keys while the issuer does not answer.
func TestJWKSURL(t *testing.T) {
	t.Parallel()
	one, two, three := newKeycloak(t, "1"), newKeycloak(t, "2"), newKeycloak(t, "3")
	const hang = "hang"
	var content atomic.Value // of the answer; empty: 500
	content.Store("")
	hanging := make(chan struct{}, 100)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch text := content.Load().(string); text {
		case "":
			w.WriteHeader(http.StatusInternalServerError)
		case hang:
			hanging <- struct{}{}
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, text)
		}
	}))
	defer issuer.Close()
	vars := map[string]string{"IDENTITY": "jwt", "JWT_JWKS_URL": issuer.URL + "/realms/shop/protocol/openid-connect/certs"}
	run := func() *servetest.Program {
		folder := t.TempDir()
		return servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
			return run(ctx, arguments(folder), func(name string) string { return vars[name] }, io.Discard, stderr)
		})
	}
	p := run()
	p.Logged("waiting for a server")
	if strings.Contains(p.Output(), `"listening"`) {
		t.Error("it listens without keys")
	}
	content.Store(one.set(t))
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", p.URL("internal")+"/readyz", "") })
	if n := strings.Count(p.Output(), "a key of the JWK set is not used"); n != 1 || !strings.Contains(p.Output(), `"kid":"enc1"`) {
		t.Errorf("the key for encryption was logged %d times", n)
	}
	putOnSale(t, p, "concert", 100)
	order := func(token string) servetest.Answer {
		return servetest.Call("POST", p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "Authorization", "Bearer "+token)
	}
	if a := order(one.token("ann")); a.Status != http.StatusAccepted || buyerOf(t, p, a) != "ann" {
		t.Error(a)
	}

	// The issuer changes its keys, and signs with the new one at once.
	content.Store(two.set(t))
	if a := order(two.token("bob")); a.Status != http.StatusAccepted || buyerOf(t, p, a) != "bob" {
		t.Errorf("the first token of a new key: %v", a)
	}
	if a := order(one.token("eve")); a.Status != http.StatusUnauthorized {
		t.Errorf("a token of a key that was removed: %v", a)
	}

	// An outage: what is known stays in force, and operators see it. The keys are asked for when the last fetch is ten seconds old.
	content.Store(hang)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for asked := false; !asked; {
		for range 64 { // they wait for the issuer, and must not delay others
			waiting.Go(func() {
				if a := order(three.token("cat")); a.Status != http.StatusUnauthorized && a.Status != http.StatusServiceUnavailable { // on a busy machine
					t.Error(a)
				}
			})
		}
		select {
		case <-hanging:
			asked = true
		case <-time.After(100 * time.Millisecond):
			waiting.Wait()
		}
	}
	if a := servetest.Once("POST", p.URL("public")+"/v1/sales/concert/orders", `{"item":"ticket"}`, "Authorization", "Bearer "+two.token("eva")); a.Status != http.StatusAccepted {
		t.Errorf("while others wait for the issuer: %v", a)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := servetest.Call("GET", p.URL("internal")+"/readyz", "")
		if !strings.Contains(string(a.Body), `"degraded":["reload"]`) {
			a.Status = 0
		}
		return a
	})
	if a := order(two.token("dan")); a.Status != http.StatusAccepted {
		t.Error(a)
	}
	if a := servetest.Call("GET", p.URL("internal")+"/metrics", ""); !strings.Contains(string(a.Body), `tidegate_reload_failed{setting="JWT_JWKS_URL"} 1`) {
		t.Error("no metric")
	}
	content.Store(three.set(t))
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer { return order(three.token("cat")) })
	if a := order(three.byEncryptionKey("eve")); a.Status != http.StatusUnauthorized || !strings.Contains(string(a.Body), `"detail":"The token is not accepted."`) {
		t.Error(a)
	}
	if a := servetest.Call("GET", p.URL("public")+"/readyz", ""); strings.Contains(string(a.Body), "degraded") {
		t.Error(a)
	}
}
