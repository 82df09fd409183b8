package auth

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/tidegate/tidegate/internal/auth/authtest"
	"github.com/tidegate/tidegate/internal/reload"
)

// issuer is an issuer with one key at a time.
type issuer struct {
	key ed25519.PrivateKey
	kid string
}

func newIssuer(kid string) *issuer {
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	return &issuer{key, kid}
}

func (i *issuer) set() []byte {
	content, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.kid}}})
	return content
}

func (i *issuer) token(t *testing.T) string {
	t.Helper()
	return authtest.Sign(t, jose.EdDSA, i.key, i.kid, authtest.GoodClaims(nil))
}

// TestKeysOfAURL: whatever a server answers, only a set of keys changes anything.
func TestKeysOfAURL(t *testing.T) {
	first, second := newIssuer("1"), newIssuer("2")
	var answer atomic.Pointer[http.HandlerFunc]
	respond := func(h http.HandlerFunc) { answer.Store(&h) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	defer server.Close()
	released := make(chan struct{})
	defer close(released) // before the server is closed
	id, err := NewJWT(JWTOptions{JWKSURL: server.URL + "/keys?secret=hunter2", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := id.Identify(bearer(first.token(t)), false); err == nil {
		t.Error("a token was accepted before there were keys")
	}
	serve := func(content []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }
	}
	respond(serve(first.set()))
	if err := id.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string // part of the error
	}{
		"500":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); _, _ = w.Write(second.set()) }, "status 500"},
		"no content":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "status 204"},
		"a login page": {serve([]byte("<html>")), "not a JWK set"},
		"an empty set": {serve([]byte(`{"keys":[]}`)), "has no keys"},
		"endless":      {serve([]byte(`{"keys":[` + strings.Repeat(" ", maxKeySet))), "more than 1048576 bytes"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(second.set())
		}, "unexpected EOF"},
		"to plain http": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://id.example/keys", http.StatusFound)
		}, "redirect to http://id.example/keys is not followed"},
		"to a file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "redirect to file:///etc/passwd is not followed"},
		"to https": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/keys", http.StatusFound)
		}, "redirect to https://127.0.0.1:1/keys is not followed"},
		"in a circle": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, "is not followed"},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "SSH-2.0\r\n\r\n")
			_ = conn.Close()
		}, "malformed HTTP"},
	} {
		respond(tt.answer)
		err := id.Load(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") || !id.Source().State().Failed {
			t.Errorf("%s: %v, %+v", name, err, id.Source().State())
		}
		if _, err := id.Identify(bearer(first.token(t)), false); err != nil {
			t.Errorf("%s: the last good keys are not in force: %v", name, err)
		}
		if _, err := id.Identify(bearer(second.token(t)), false); err == nil {
			t.Errorf("%s: its key is in force", name)
		}
	}
	// A server that hangs is left.
	respond(func(http.ResponseWriter, *http.Request) { <-released })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := id.Load(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// A redirect on the same terms is followed, and the new key replaces the old one.
	respond(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			serve(second.set())(w, r)
			return
		}
		http.Redirect(w, r, "/moved", http.StatusMovedPermanently)
	})
	if err := id.Load(t.Context()); err != nil || id.Source().State().Failed {
		t.Error(err)
	}
	if _, err := id.Identify(bearer(second.token(t)), false); err != nil {
		t.Error(err)
	}
	if _, err := id.Identify(bearer(first.token(t)), false); err == nil {
		t.Error("a key that was removed is in force")
	}
}

// TestWhenKeysAreFetched: every five minutes, sooner after an error, and for tokens with an unknown kid, at most every ten seconds.
func TestWhenKeysAreFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			current atomic.Pointer[issuer]
			outage  atomic.Bool
			fetches atomic.Int64
		)
		current.Store(newIssuer("1"))
		id, err := NewJWT(JWTOptions{JWKSURL: "https://id.example/keys", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		id.source = reload.New("JWT_JWKS_URL", id.log, func(context.Context) ([]byte, error) {
			fetches.Add(1)
			time.Sleep(time.Second) // a slow issuer
			if outage.Load() {
				return nil, errors.New("an outage")
			}
			return current.Load().set(), nil
		}, id.load)
		if err := id.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- id.Run(ctx) }()
		fetched := func(want int64, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := fetches.Swap(0); got != want {
				t.Errorf("%d fetches, want %d", got, want)
			}
		}
		fetched(1, 0) // at the start
		fetched(0, 4*time.Minute)
		fetched(2, 8*time.Minute)
		outage.Store(true)
		for !id.Source().State().Failed {
			time.Sleep(time.Second)
		}
		fetched(1, 0)
		fetched(3, 50*time.Second)
		outage.Store(false)
		fetched(1, 30*time.Second)
		if id.Source().State().Failed {
			t.Error("failed")
		}

		refuse := func(token string) <-chan struct{} {
			t.Helper()
			_, err := id.Identify(bearer(token), false)
			refused, _ := errors.AsType[*JWTError](err)
			if refused == nil || refused.Cause != JWTSignature {
				t.Fatalf("%v", err)
			}
			return refused.Fetched
		}
		// The issuer changes its keys: the first token of the new one makes them known.
		forged := authtest.Sign(t, jose.EdDSA, newIssuer("").key, "1", authtest.GoodClaims(nil))
		unnamed := authtest.Sign(t, jose.EdDSA, newIssuer("").key, "", authtest.GoodClaims(nil))
		current.Store(newIssuer("2"))
		if refuse(forged) != nil || refuse(unnamed) != nil {
			t.Error("only an unknown kid fetches")
		}
		one, two := refuse(current.Load().token(t)), refuse(current.Load().token(t))
		if one == nil || one != two {
			t.Fatal("two tokens wait for one fetch")
		}
		<-one
		if _, err := id.Identify(bearer(current.Load().token(t)), false); err != nil {
			t.Error(err)
		}
		fetched(1, 0)
		// Invented kids cost the issuer one fetch in ten seconds, and their senders at most a wait.
		for range 100 {
			if wait := refuse(newIssuer("invented").token(t)); wait != nil {
				<-wait
			}
			time.Sleep(time.Second)
		}
		fetched(9, 0)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
