package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func start(t *testing.T, flags ...string) *servetest.Program {
	t.Helper()
	folder := t.TempDir()
	return servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		args := append([]string{"-listen", "127.0.0.1:0", "-internal-listen", "127.0.0.1:0", "-tidegate-data", folder, "-log-format", "json"}, flags...)
		cfg, err := config.API(args, func(string) string { return "" }, stderr)
		if err != nil {
			return err
		}
		return embedded.Run(ctx, cfg, cfg.Logger(stderr), func(embedded.Place) {})
	})
}

// TestOnlyPassesOfTheRoom: everything that a running Tidegate signs for a visitor is tried as a pass, and texts that differ from a pass in
// one point.
func TestOnlyPassesOfTheRoom(t *testing.T) {
	p := start(t)
	public, internal := p.URL("public"), p.URL("internal")
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	for room, definition := range map[string]string{
		"shoes": fmt.Sprintf(`{"mode":"fifo","starts_at":%q,"capacity":100}`, at(-time.Minute)),
		"hats":  fmt.Sprintf(`{"mode":"fifo","starts_at":%q,"capacity":100}`, at(-time.Minute)),
		"drawn": fmt.Sprintf(`{"mode":"draw","gather_at":%q,"starts_at":%q}`, at(-time.Minute), at(time.Hour)),
	} {
		if a := servetest.Call("PUT", internal+"/v1/rooms/"+room, definition); a.Status != http.StatusCreated {
			t.Fatal(a)
		}
	}
	type place struct{ Pass, Token, Receipt string }
	join := func(room string) (joined place) {
		t.Helper()
		servetest.Until(t, http.StatusCreated, func() servetest.Answer {
			return servetest.Call("POST", public+"/v1/rooms/"+room+"/place", "", "X-User-ID", "ann")
		}).Into(t, &joined)
		return joined
	}
	admitted := func(room string) (got place) {
		t.Helper()
		join(room)
		servetest.Until(t, http.StatusOK, func() servetest.Answer {
			return servetest.Call("POST", public+"/v1/rooms/"+room+"/place/claim", "", "X-User-ID", "ann")
		}).Into(t, &got)
		return got
	}
	mine, other, drawn := admitted("shoes"), admitted("hats"), join("drawn")
	var aws struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		ID      string `json:"id_token"`
	}
	servetest.Call("POST", public+"/vwr/generate_token", `{"event_id":"shoes","request_id":"`+mine.Token+`"}`, "X-User-ID", "ann").Into(t, &aws)
	if drawn.Receipt == "" || aws.ID == "" {
		t.Fatalf("%+v, %+v", drawn, aws)
	}

	enter := func(room, pass string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/checkout", nil)
		r.Header.Set("X-Waiting-Room-Pass", pass)
		checkout(&Passes{Room: room, Keys: public + "/.well-known/jwks.json"}).ServeHTTP(w, r)
		return w
	}
	for name, text := range map[string]string{"pass": mine.Pass, "access token": aws.Access} {
		if w := enter("shoes", text); w.Code != http.StatusOK {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
	for name, text := range map[string]string{
		"none": "", "place token": mine.Token, "receipt": drawn.Receipt, "refresh token": aws.Refresh, "ID token": aws.ID, "pass of another room": other.Pass,
		"no signature": mine.Pass[:strings.LastIndexByte(mine.Pass, '.')+1], "another's signature": mine.Pass[:strings.LastIndexByte(mine.Pass, '.')] + other.Pass[strings.LastIndexByte(other.Pass, '.'):],
	} {
		if w := enter("shoes", text); w.Code != http.StatusForbidden {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
	for _, room := range []string{"drawn", "drawn/receipt"} {
		for name, text := range map[string]string{"receipt": drawn.Receipt, "place token": drawn.Token} {
			if w := enter(room, text); w.Code != http.StatusForbidden {
				t.Errorf("%s of %s: %s", name, room, w.Body)
			}
		}
	}
}

// TestEachCheckOfAPass: what differs from a pass in one header or claim is refused, although the key is right.
func TestEachCheckOfAPass(t *testing.T) {
	secret := make([]byte, 32)
	var set jose.JSONWebKeySet
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(t, w, set) }))
	defer keys.Close()
	private := newKey(t, &set)
	now := time.Now()
	good := map[string]any{"iss": "tidegate", "aud": "shoes", "sub": "ann", "token_use": "access", "exp": now.Add(time.Minute).Unix(), "nbf": now.Unix()}
	sign := func(key any, alg jose.SignatureAlgorithm, typ string, change map[string]any) string {
		t.Helper()
		claims := map[string]any{}
		for _, from := range []map[string]any{good, change} {
			for name, value := range from {
				if claims[name] = value; value == nil {
					delete(claims, name)
				}
			}
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const typ = "tidegate-pass+jwt"
	for _, tt := range []struct {
		name, text string
		ok         bool
	}{
		{"as it is", sign(private, jose.EdDSA, typ, nil), true},
		{"begins soon", sign(private, jose.EdDSA, typ, map[string]any{"nbf": now.Add(20 * time.Second).Unix()}), true},
		{"old type", sign(private, jose.EdDSA, "JWT", nil), false},
		{"no expiry", sign(private, jose.EdDSA, typ, map[string]any{"exp": nil}), false},
		{"expired", sign(private, jose.EdDSA, typ, map[string]any{"exp": now.Add(-2 * time.Second).Unix()}), false},
		{"not yet", sign(private, jose.EdDSA, typ, map[string]any{"nbf": now.Add(time.Minute).Unix()}), false},
		{"no issuer", sign(private, jose.EdDSA, typ, map[string]any{"iss": nil}), false},
		{"another issuer", sign(private, jose.EdDSA, typ, map[string]any{"iss": "https://op.example"}), false},
		{"no audience", sign(private, jose.EdDSA, typ, map[string]any{"aud": nil}), false},
		{"audience of receipts", sign(private, jose.EdDSA, typ, map[string]any{"aud": "shoes/receipt"}), false},
		{"no subject", sign(private, jose.EdDSA, typ, map[string]any{"sub": nil}), false},
		{"another use", sign(private, jose.EdDSA, typ, map[string]any{"token_use": "receipt"}), false},
		{"another algorithm", sign(secret, jose.HS256, typ, nil), false},
		{"another key", sign(newKey(t, &jose.JSONWebKeySet{}), jose.EdDSA, typ, nil), false},
	} {
		subject, err := (&Passes{Room: "shoes", Keys: keys.URL}).Verify(t.Context(), tt.text)
		if (err == nil) != tt.ok || tt.ok && subject != "ann" {
			t.Errorf("%s: %q, %v", tt.name, subject, err)
		}
	}
}

// newKey adds the public part of a new key to set.
func newKey(t *testing.T, set *jose.JSONWebKeySet) ed25519.PrivateKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set.Keys = append(set.Keys, jose.JSONWebKey{Key: public, KeyID: "k", Algorithm: string(jose.EdDSA), Use: "sig"})
	return private
}

func writeJSON(t *testing.T, w io.Writer, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}
