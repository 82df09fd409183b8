package serve

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tidegate/tidegate/internal/serve/servetest"
	"github.com/tidegate/tidegate/internal/testenv"
	"github.com/tidegate/tidegate/internal/testenv/databases"
)

// secrets are values that must not be in any log, by what they are.
type secrets map[string]string

// of returns a new secret.
func (s secrets) of(what string) string {
	s[what] = rand.Text() + rand.Text()
	return s[what]
}

// note adds a value that was made elsewhere.
func (s secrets) note(what, value string) string {
	s[what] = value
	return value
}

// jwt returns a token of a user.
func jwt(key, user string) string {
	part := func(v any) string {
		text, _ := json.Marshal(v) // of strings: cannot fail
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]string{"alg": "HS256", "typ": "JWT"}) + "." + part(map[string]any{"sub": user, "exp": 1 << 40})
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// withPassword returns a URL with a password that is actually checked.
func withPassword(t *testing.T, of, user, password string) string {
	t.Helper()
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	if user == "" {
		user = u.User.Username()
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// TestNothingSecretIsWritten: the programs log no secret and no user's name, at any level, for requests that succeed, are
// refused or fail.
func TestNothingSecretIsWritten(t *testing.T) {
	t.Parallel()
	bin, dir := testenv.Programs(t), t.TempDir()
	secret := secrets{}
	server, postgres := testenv.StartRedis(t), testenv.StartPostgres(t)
	raw := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer raw.Close()
	if err := raw.Do(t.Context(), "ACL", "SETUSER", "tide", "on", ">"+secret.of("password of Redis"), "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	tokens, rules := filepath.Join(dir, "tokens.yaml"), filepath.Join(dir, "rules.yaml")
	for path, content := range map[string]string{
		tokens: fmt.Sprintf("- {name: ada, role: operator, token: %s}\n- {name: bob, role: admit, token: %s}\n", secret.of("operator's token"), secret.of("service's token")),
		rules:  "version: 1\nrules: [{name: r, subject: user, limit: 1000, window: 1s}]\nsemaphores: {s: {limit: 1}}\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	vars := []string{
		"REDIS_URL=" + withPassword(t, server.URL(), "tide", secret["password of Redis"]),
		"DATABASE_URL=" + withPassword(t, postgres.URL(), "", secret.of("password of Postgres")),
		"MIGRATE=true", "NAMESPACE=quiet", "RULES_FILE=" + rules, "TOKENS_FILE=" + tokens, "SECRET=" + secret.of("SECRET"), "SECRET_PREVIOUS=" + secret.of("SECRET_PREVIOUS"),
		"IDENTITY=jwt", "JWT_SECRET=" + secret.of("key of JWTs"), "TRUSTED_PROXIES=127.0.0.1",
		"CAPTCHA=turnstile", "CAPTCHA_SITE_KEY=site", "CAPTCHA_SECRET=" + secret.of("secret of the captcha"), "CAPTCHA_HOSTNAMES=shop.example",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_HEADERS=authorization=" + secret.of("collector's token"),
		"LOG_LEVEL=debug", "LISTEN=127.0.0.1:0", "INTERNAL_LISTEN=127.0.0.1:0", "WORKER_LISTEN=127.0.0.1:0",
	}
	api, worker := servetest.Exec(t, filepath.Join(bin, "api"), vars...), servetest.Exec(t, filepath.Join(bin, "worker"), vars...)
	internal := func(method, path, body string, fields ...string) servetest.Answer {
		return servetest.Once(method, api.URL("internal")+path, body, append([]string{"X-Tidegate-Token", secret["operator's token"]}, fields...)...)
	}
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return internal("GET", "/readyz", "") })
	servetest.Once("GET", worker.URL("worker")+"/livez", "")
	servetest.OpenSale(t, api.URL("internal"), "concert", servetest.Sale("ticket", 10), "X-Tidegate-Token", secret["operator's token"])

	user, address := secret.of("user"), secret.note("address", "203.0.113.77")
	bearer := secret.note("JWT", jwt(secret["key of JWTs"], user))
	public := func(method, path, body string, fields ...string) servetest.Answer {
		return servetest.Once(method, api.URL("public")+path, body, append([]string{
			"Authorization", "Bearer " + bearer, "X-Forwarded-For", address, "Idempotency-Key", secret["key"], "X-Captcha", secret["solution"],
		}, fields...)...)
	}
	secret.of("key")
	secret.of("solution")

	var placed struct {
		OrderID string `json:"order_id"`
	}
	servetest.Until(t, http.StatusAccepted, func() servetest.Answer {
		return public("POST", "/v1/sales/concert/orders", `{"item":"ticket"}`)
	}).Into(t, &placed)
	servetest.Until(t, http.StatusOK, func() servetest.Answer {
		a := public("GET", "/v1/orders/"+placed.OrderID+"?wait_ms=2000", "")
		if !strings.Contains(string(a.Body), `"confirmed"`) {
			a.Status = 0
		}
		return a
	})
	var attempt struct {
		AttemptID string `json:"attempt_id"`
	}
	login := fmt.Sprintf(`{"name":%q,"ip":%q,"device":%q}`, secret.of("login name"), address, secret.of("device"))
	internal("POST", "/v1/login/attempts", login).Into(t, &attempt)
	secret.note("login attempt", attempt.AttemptID)
	var permit struct {
		PermitID string `json:"permit_id"`
	}
	internal("POST", "/v1/semaphores/s/permits", fmt.Sprintf(`{"holder":%q}`, secret.of("holder"))).Into(t, &permit)
	secret.note("permit", permit.PermitID)

	// These calls are made while Redis and Postgres run, and while they are down.
	ask := func() {
		var all sync.WaitGroup
		for _, c := range []struct {
			call               func(method, path, body string, fields ...string) servetest.Answer
			method, path, body string
			fields             []string
		}{
			{public, "POST", "/v1/sales/concert/orders", `{"item":"ticket"}`, nil},
			{public, "GET", "/v1/orders/" + placed.OrderID, "", nil},
			{public, "GET", "/v1/sales/concert/orders", "", nil},
			{internal, "PUT", "/v1/semaphores/s/permits/" + permit.PermitID, `{}`, nil},
			{internal, "POST", "/v1/login/attempts", login, nil},
			{internal, "POST", "/v1/login/attempts/" + attempt.AttemptID + "/outcome", `{"result":"failure"}`, nil},
			{internal, "GET", "/v1/login/subjects?name=" + secret["login name"], "", nil},
			{internal, "POST", "/v1/admit", fmt.Sprintf(`{"subject":{"user":%q,"ip":%q}}`, user, address), nil},
			{internal, "GET", "/v1/explain?user=" + user + "&ip=" + address, "", nil},
			{internal, "GET", "/v1/authz", "", []string{"X-Original-URI", "/?q=" + secret["key"], "X-User-ID", user}},
			{internal, "GET", "/v1/sales/concert/orders", "", nil},
			{internal, "GET", "/v1/sales/concert/verify", "", nil},
			{internal, "POST", "/v1/orders/" + placed.OrderID + "/payment", fmt.Sprintf(`{"reference":%q}`, secret["payment"]), nil},
		} {
			all.Go(func() { // at the same time, because each waits for the servers
				if a := c.call(c.method, c.path, c.body, c.fields...); a.Err != nil {
					t.Error(a.Err)
				}
			})
		}
		all.Wait()
	}
	secret.of("payment")
	ask()
	for _, a := range []servetest.Answer{ // invalid requests
		public("POST", "/v1/sales/concert/orders", fmt.Sprintf(`{"item":%q,"quantity":"%s"}`, user, secret["key"])),
		public("POST", "/v1/sales/concert/orders", `{"item": `+secret["key"]),
		public("POST", "/v1/sales/"+user+"/orders", `{"item":"ticket"}`),
		public("GET", "/v1/orders/"+user, ""),
		public("GET", "/"+user+"?token="+secret["key"], ""),
		public("GET", "/v1/sales/concert", "", "Authorization", "Bearer "+bearer+"x"),
		public("GET", "/v1/sales/concert", "", "Authorization", "Basic "+secret["key"]),
		internal("GET", "/v1/sales", "", "X-Tidegate-Token", secret.of("wrong token")),
		internal("PUT", "/v1/bans/user/"+user, `{"for_ms":60000,"reason":"`+secret.of("reason of a ban")+`"}`),
		internal("PUT", "/v1/bans/ip/"+address, `{"for_ms":60000}`),
		internal("DELETE", "/v1/bans/ip/"+address, ""),
		internal("PUT", "/v1/bans/nonsense/"+user, `{"for_ms":60000}`),
		internal("DELETE", "/v1/bans/user/"+user, ""),
	} {
		if a.Err != nil {
			t.Error(a.Err)
		}
	}
	queue := asynq.NewClientFromRedisClient(raw)
	if _, err := queue.Enqueue(asynq.NewTask("orders:commit", []byte(`[{"b":"`+user+`"`)), asynq.Queue("quiet-accepted-0"), asynq.TaskID("garbage")); err != nil {
		t.Fatal(err)
	}
	worker.Logged("a task has orders that cannot be read; the outbox has them")

	postgres.Kill()
	ask()
	postgres.Restart()
	server.Kill()
	ask()
	starting := servetest.Exec(t, filepath.Join(bin, "api"), vars...)
	starting.Logged("waiting for a server")
	_ = starting.Stop()

	api.Logged("traces are lost: the collector does not accept them")
	_ = worker.Stop()
	_ = api.Stop() // another test checks the shutdown without Redis
	for name, p := range map[string]*servetest.Program{"api": api, "worker": worker, "starting api": starting} {
		written := p.Output()
		if !strings.Contains(written, `"level":"DEBUG"`) && name != "starting api" {
			t.Errorf("%s does not say all that it could:\n%.2000s", name, written)
		}
		for what, value := range secret {
			if value == "" {
				t.Fatalf("there was no %s", what)
			}
			for line := range strings.Lines(written) {
				if strings.Contains(line, value) {
					t.Errorf("%s writes the %s: %.600s", name, what, line)
				}
			}
		}
	}
	if want := `"order_id":"` + placed.OrderID; !strings.Contains(api.Output(), want) {
		t.Errorf("the api does not name the order")
	}
}

// TestNoHashIsOfTheSecretItself: each purpose has its own key derived from SECRET, so that no part can be used to sign for
// another: nothing is hashed with SECRET itself.
func TestNoHashIsOfTheSecretItself(t *testing.T) {
	t.Parallel()
	redisURL := testenv.Redis(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte(`
version: 1
rules: [{name: all, subject: [user], limit: 9, window: 1h}]
semaphores: {s: {limit: 1, lease: 1m}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := with(environment(redisURL, databases.Postgres(t)), "RULES_FILE", rules)
	api := startAPI(t, env)
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Once("GET", api.URL("internal")+"/readyz", "") })
	raw := func(text string) string {
		h := hmac.New(sha256.New, []byte(env("SECRET")))
		h.Write([]byte(text))
		return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
	}

	if a := servetest.Once("POST", api.URL("internal")+"/v1/admit", `{"subject":{"user":"ann"}}`); a.Status != http.StatusOK {
		t.Fatal(a)
	}
	opts, err := redis.ParseURL(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	keys, err := rdb.Keys(t.Context(), env("NAMESPACE")+":w:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%v, %v", keys, err)
	}
	ofAnn := raw("\x04user\x03ann")
	for _, key := range keys {
		if strings.Contains(key, ofAnn) {
			t.Errorf("a counter's key is of SECRET itself: %s", key)
		}
	}

	var permit struct {
		PermitID string `json:"permit_id"`
	}
	servetest.Once("POST", api.URL("internal")+"/v1/semaphores/s/permits", `{"holder":"h"}`).Into(t, &permit)
	dot := strings.LastIndexByte(permit.PermitID, '.')
	if dot < 0 || permit.PermitID[dot+1:] == raw(fmt.Sprintf("permit id %q %q", "s", permit.PermitID[:max(0, dot)])) {
		t.Errorf("a permit is signed with SECRET itself: %q", permit.PermitID)
	}
}
