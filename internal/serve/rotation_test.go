package serve

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

var older, newer, foreign = "older-" + testenv.Secret, "newer-" + testenv.Secret, "foreign-" + testenv.Secret

// signing returns env with other secrets.
func signing(env func(string) string, secret, previous string) func(string) string {
	return func(name string) string {
		switch name {
		case "SECRET":
			return secret
		case "SECRET_PREVIOUS":
			return previous
		}
		return env(name)
	}
}

const rotationRules = `
version: 1
rules:
  - {name: hurdle, match: {method: POST}, subject: user, limit: 1, window: 1h, on_exceed: challenge}
semaphores: {s: {limit: 9, lease: 1m}}
`

// TestSecretIsChanged: what an API has signed is accepted by APIs with the same secret in SECRET_PREVIOUS, and by no others.
func TestSecretIsChanged(t *testing.T) {
	t.Parallel()
	base := environment(testenv.Redis(t), databases.Postgres(t))
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(rotationRules), 0o600); err != nil {
		t.Fatal(err)
	}
	env := func(name string) string {
		if name == "RULES_FILE" {
			return rules
		}
		return base(name)
	}
	before, while := startAuthenticator(t, signing(env, older, "")), startAuthenticator(t, signing(env, newer, older))
	after, mistaken := startAuthenticator(t, signing(env, newer, "")), startAuthenticator(t, signing(env, newer, foreign))

	t.Run("permit", func(t *testing.T) {
		var permit struct {
			PermitID string `json:"permit_id"`
		}
		permits := "/v1/semaphores/s/permits"
		servetest.Call("POST", before.URL("internal")+permits, `{"holder":"h"}`).Into(t, &permit)
		for _, a := range []authenticator{after, mistaken} {
			if got := servetest.Call("PUT", a.URL("internal")+permits+"/"+permit.PermitID, ""); got.Status != http.StatusGone {
				t.Errorf("renewed without the secret: %v", got)
			}
		}
		if got := servetest.Call("PUT", while.URL("internal")+permits+"/"+permit.PermitID, ""); got.Status != http.StatusOK {
			t.Errorf("renewed: %v", got)
		}
		if got := servetest.Call("DELETE", while.URL("internal")+permits+"/"+permit.PermitID, ""); got.Status != http.StatusNoContent {
			t.Errorf("released: %v", got)
		}
		servetest.Call("POST", while.URL("internal")+permits, `{"holder":"h"}`).Into(t, &permit)
		if got := servetest.Call("PUT", after.URL("internal")+permits+"/"+permit.PermitID, ""); got.Status != http.StatusOK {
			t.Errorf("a new one is signed with the previous secret: %v", got)
		}
	})

	t.Run("login", func(t *testing.T) {
		id := before.wants("allow", "", "ann", "192.0.2.1").AttemptID
		for _, a := range []authenticator{after, mistaken} {
			a.settle(http.StatusNotFound, id, "success")
		}
		while.settle(http.StatusOK, id, "success")
		device := before.settle(http.StatusOK, id, "success") // the same outcome once more
		for _, ip := range []string{"198.51.100.1", "198.51.100.2", "198.51.100.3"} {
			while.fail("ann", ip)
		}
		for _, a := range []authenticator{after, mistaken} {
			a.wants("challenge", "name_failures", "ann", "192.0.2.1", "device", device)
		}
		renewed := while.settle(http.StatusOK, while.wants("allow", "", "ann", "192.0.2.1", "device", device).AttemptID, "success")
		if renewed == "" || renewed == device {
			t.Fatalf("%q is not renewed: %q", device, renewed)
		}
		after.wants("allow", "", "ann", "192.0.2.1", "device", renewed)
	})

	t.Run("challenge", func(t *testing.T) {
		challenged := func(a authenticator) attempted {
			return a.wants("challenge", "name_failures", "bob", "192.0.2.2")
		}
		for _, a := range []authenticator{before, while} {
			for _, ip := range []string{"198.51.101.1", "198.51.101.2", "198.51.101.3"} {
				a.fail("bob", ip)
			}
		}
		for what, url := range map[string]string{
			"all by the one before": before.URL("public") + challenged(before).Challenge.URL,
			"fetched from the next": while.URL("public") + challenged(before).Challenge.URL,
		} {
			solved := servetest.Solve(t, url)
			for _, a := range []authenticator{after, mistaken} {
				a.wants("challenge", "captcha_refused", "bob", "192.0.2.2", "captcha", solved)
			}
			while.wants("challenge", "captcha_refused", "bob", "192.0.2.3", "captcha", solved)
			if id := while.wants("allow", "", "bob", "192.0.2.2", "captcha", solved).AttemptID; id == "" {
				t.Error(what)
			}
			while.wants("challenge", "captcha_refused", "bob", "192.0.2.2", "captcha", solved)
		}
		if a := servetest.Call("GET", after.URL("public")+challenged(before).Challenge.URL, ""); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("a challenge of the previous secret: %v", a)
		}
		after.wants("allow", "", "bob", "192.0.2.2", "captcha", servetest.Solve(t, while.URL("public")+challenged(while).Challenge.URL))
	})

	t.Run("ban", func(t *testing.T) {
		if a := servetest.Call("PUT", before.URL("internal")+"/v1/bans/ip/192.0.2.99", `{"for_ms":600000}`); a.Status != http.StatusCreated && a.Status != http.StatusOK {
			t.Fatal(a)
		}
		servetest.Until(t, http.StatusOK, func() servetest.Answer { // it learns of the ban with a delay
			a := after.ask("eve", "192.0.2.99", "mode", "check")
			if !strings.Contains(string(a.Body), `"banned"`) {
				a.Status = 0
			}
			return a
		})
	})

	t.Run("challenge of an order", func(t *testing.T) {
		startWorker(t, env)
		shop := openShop(t, while.Program, 10)
		servetest.Until(t, http.StatusOK, func() servetest.Answer { // it learns of the sale with a delay
			a := servetest.Call("GET", after.URL("public")+"/v1/sales/concert", "")
			if !strings.Contains(string(a.Body), `"open"`) {
				a.Status = 0
			}
			return a
		})
		asBob := func(a authenticator, method, path, body, solved string) servetest.Answer {
			return servetest.Once(method, a.URL("public")+path, body, "X-User-ID", "bob", "X-Captcha", solved, "Idempotency-Key", rand.Text())
		}
		shop.bought("bob")
		solution := func() string {
			challenge := servetest.Until(t, http.StatusOK, func() servetest.Answer { return asBob(before, "GET", "/v1/captcha/challenge?purpose=order", "", "") })
			return testenv.Solve(t, challenge.Body)
		}
		order := func(a authenticator, want int) { // each time with a new solution: one whose answer was lost is used up
			servetest.Until(t, want, func() servetest.Answer {
				return asBob(a, "POST", "/v1/sales/concert/orders", `{"item":"ticket"}`, solution())
			})
		}
		order(after, http.StatusForbidden) // without the secret
		order(while, http.StatusConflict)
	})
}

// TestAnotherSecretIsNoticed: two APIs that share a Redis and have different secrets log an error.
func TestAnotherSecretIsNoticed(t *testing.T) {
	t.Parallel()
	const message = "SECRET differs from that of the API that started last"
	base := environment(testenv.Redis(t), databases.Postgres(t))
	for _, step := range []struct {
		what, secret, previous string
		noticed                bool
	}{
		{"the first one", older, "", false},
		{"its like", older, "", false},
		{"ready for the next", older, newer, false},
		{"the change", newer, older, false},
		{"through with it", newer, "", false},
		{"a foreign one", foreign, "", true},
		{"the right one again", newer, "", true},
		{"with another previous one", older, foreign, true},
	} {
		api := startAuthenticator(t, signing(base, step.secret, step.previous))
		if got := strings.Contains(api.Output(), message); got != step.noticed {
			t.Errorf("%s: noticed is %v\n%s", step.what, got, api.Output())
		}
		if err := api.Stop(); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
	}
}

func TestSecretIsComparedOnlyIfRedisAnswers(t *testing.T) {
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer away.Close()
	var log bytes.Buffer
	compareSecret(t.Context(), &config.Config{Secret: config.Secret(newer)}, away, slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "level=WARN") || strings.Contains(log.String(), newer) {
		t.Error(log.String())
	}
}
