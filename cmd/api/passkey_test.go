package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io"
	"strings"
	"testing"

	"github.com/tidegate/tidegate/internal/serve/servetest"
)

// TestPassKeyFile: the key of PASS_KEY_FILE is the one that is published, and a file without a usable key stops the start.
func TestPassKeyFile(t *testing.T) {
	inPEM := func(bits int) string {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	}
	p := startWith(t, map[string]string{"PASS_KEY_FILE": writeFile(t, "pass.pem", inPEM(2048))})
	var published struct {
		Keys []struct{ Kty, Alg, Use, Kid, N, E, D string }
	}
	servetest.Call("GET", p.URL("public")+"/.well-known/jwks.json", "").Into(t, &published)
	if k := published.Keys; len(k) != 1 || k[0].Kty != "RSA" || k[0].Alg != "RS256" || k[0].Use != "sig" || k[0].Kid == "" || k[0].N == "" || k[0].E != "AQAB" || k[0].D != "" {
		t.Errorf("%+v", published)
	}
	for text, want := range map[string]string{inPEM(1024): "an RSA key must have at least 2048 bits, got 1024", "not a key": "no PEM block: it must hold one private key"} {
		file := writeFile(t, "pass.pem", text)
		err := start(t, t.TempDir(), io.Discard, "-pass-key-file", file).Refused()
		if err == nil || !strings.Contains(err.Error(), "PASS_KEY_FILE: "+file+": "+want) || strings.Contains(err.Error(), "not a key") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
