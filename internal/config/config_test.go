package config

import (
	"bytes"
	stdcmp "cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidegate/tidegate/redisclient"
)

// env is a complete environment with changes: name, value, name, value …; it holds the files it names.
func env(t *testing.T, changes ...string) func(string) string {
	t.Helper()
	vars := map[string]string{
		"REDIS_URL":    "redis://:hunter2@redis.test:6379/0",
		"DATABASE_URL": "postgres://tidegate:hunter2@pg.test:5432/tidegate",
		"IDENTITY":     "header",
		"SECRET":       good,
	}
	for i := 0; i < len(changes); i += 2 {
		vars[changes[i]] = changes[i+1]
	}
	return func(name string) string { return vars[name] }
}

// good is a secret.
const good = "a-secret-of-the-tests-of-tidegate"

func nothing(string) string { return "" }

func TestEmbeddedNeedsNothing(t *testing.T) {
	c, err := API(nil, nothing, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Data: "./tidegate-data", Listen: ":8080", InternalListen: "127.0.0.1:8081", WorkerListen: "127.0.0.1:8082",
		Identity: "header", Captcha: "altcha", Namespace: "tidegate", MaxRemembered: 100_000, HistoryDays: 90, DrandRelays: []string{"https://api.drand.sh", "https://drand.cloudflare.com"}, RoomDays: 30, RedisTimeout: redisclient.DefaultTimeout, DatabaseConns: 16, KeepAlive: 620 * time.Second, TracesSampler: "parentbased_always_on", TracesShare: 1, LogLevel: slog.LevelInfo, LogFormat: "text",
	}
	if name := c.KoalaZone.String(); name != "Asia/Shanghai" {
		t.Fatal(name)
	}
	want.KoalaZone = c.KoalaZone
	same := cmp.Comparer(func(a, b *time.Location) bool { return a == b })
	if diff := cmp.Diff(want, c, cmp.Comparer(func(a, b Secret) bool { return a == b }), same); diff != "" {
		t.Fatal(diff)
	}
	if !c.Embedded() {
		t.Fatal("not embedded")
	}
}

func TestEmbeddedTakesNoKeyForNothing(t *testing.T) {
	for _, name := range []string{"JWT_SECRET", "JWT_JWKS_FILE", "JWT_JWKS_URL"} {
		value := map[string]string{"JWT_SECRET": "another-secret-of-the-tests-of-tidegate", "JWT_JWKS_FILE": "config_test.go", "JWT_JWKS_URL": "https://id.test/keys"}[name]
		if _, err := API(nil, func(v string) string { return map[string]string{name: value}[v] }, io.Discard); err == nil || !strings.Contains(err.Error(), "IDENTITY must be jwt") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSecretsInFiles: each secret may be in a file, and whoever else can read it is named.
func TestSecretsInFiles(t *testing.T) {
	folder := t.TempDir()
	changes := []string{"IDENTITY", "jwt", "CAPTCHA", "turnstile", "CAPTCHA_SITE_KEY", "site", "CAPTCHA_HOSTNAMES", "shop.test"}
	want := map[string]string{}
	for i, name := range secretVariables {
		if want[name] = fmt.Sprintf("%d-%s", i, good); strings.HasSuffix(name, "_URL") {
			want[name] = env(t, "QUEUE_REDIS_URL", "redis://:hunter2@queue.test:6379/0")(name)
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(want[name]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, name, "", name+"_FILE", path)
	}
	c, err := API(nil, env(t, changes...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{
		"SECRET": string(c.Secret), "SECRET_PREVIOUS": string(c.PreviousSecret), "JWT_SECRET": string(c.JWTSecret), "INTERNAL_TOKEN": string(c.InternalToken),
		"METRICS_TOKEN": string(c.MetricsToken), "CAPTCHA_SECRET": string(c.CaptchaSecret), "REDIS_URL": string(c.Redis), "QUEUE_REDIS_URL": string(c.Queue), "DATABASE_URL": string(c.Database),
	} {
		if got != want[name] || got == "" {
			t.Errorf("%s is %q, want %q of a file", name, got, want[name])
		}
	}
	if len(c.Warnings) > 0 {
		t.Errorf("%q", c.Warnings)
	}
	if err := os.Chmod(filepath.Join(folder, "JWT_SECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err = API([]string{"-secret", good, "-redis-url", "redis://redis.test:6379/0"}, env(t, append(changes, "SECRET_FILE", "", "REDIS_URL_FILE", "")...), io.Discard)
	if err != nil || len(c.Warnings) != 2 || !strings.Contains(c.Warnings[0], "the flag -secret shows") || !strings.Contains(c.Warnings[1], "can read the file of JWT_SECRET_FILE") {
		t.Errorf("%q, %v", c.Warnings, err)
	}
}

func TestDatabaseOfSeveralHosts(t *testing.T) {
	const hosts = "postgres://u:hunter2@one.test:5432,two.test:5433/db?target_session_attrs=read-write"
	c, err := Worker(nil, env(t, "DATABASE_URL", hosts), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Database.String(); got != "postgres://u:***@one.test:5432,two.test:5433/db" {
		t.Fatal(got)
	}
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	c, err := API([]string{"-listen", "127.0.0.1:0", "-migrate", "-namespace=shop", "-queue-redis-url", "redis://queue.test:6379"},
		env(t, "LISTEN", ":9000", "LOG_LEVEL", "debug"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:0" || !c.Migrate || c.Namespace != "shop" || c.LogLevel != slog.LevelDebug {
		t.Fatalf("%+v", c)
	}
	if string(c.Queue) != "redis://queue.test:6379" {
		t.Fatalf("queue at %s", c.Queue)
	}
}

func TestQueueIsOnTheSameRedisUnlessToldOtherwise(t *testing.T) {
	c, err := Worker(nil, env(t), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.Queue != c.Redis || c.Redis == "" {
		t.Fatalf("redis %q, queue %q", c.Redis, c.Queue)
	}
}

func TestCaptchaOfOthers(t *testing.T) {
	c, err := API(nil, env(t, "CAPTCHA", "turnstile", "CAPTCHA_SITE_KEY", "key", "CAPTCHA_SECRET", "hunter2", "CAPTCHA_HOSTNAMES", "shop.example, www.shop.example"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.Captcha != "turnstile" || c.CaptchaSiteKey != "key" || string(c.CaptchaSecret) != "hunter2" ||
		cmp.Diff(c.CaptchaHostnames, []string{"shop.example", "www.shop.example"}) != "" {
		t.Errorf("%+v", c)
	}
	_, err = API(nil, env(t, "CAPTCHA", "hcaptcha", "CAPTCHA_SITE_KEY", "key", "CAPTCHA_SECRET", "hunter2", "CAPTCHA_HOSTNAMES", "https://shop.example"), io.Discard)
	if err == nil || !strings.Contains(err.Error(), `CAPTCHA_HOSTNAMES must be hostnames, such as shop.example,www.shop.example, got "https://shop.example"`) {
		t.Errorf("%v", err)
	}
	_, err = API(nil, env(t, "CAPTCHA", "hcaptcha", "CAPTCHA_SITE_KEY", "key"), io.Discard)
	for _, name := range []string{"CAPTCHA_SECRET", "CAPTCHA_HOSTNAMES"} {
		if err == nil || !strings.Contains(err.Error(), name+" is required with CAPTCHA=hcaptcha") {
			t.Errorf("%v", err)
		}
	}
}

func TestWrongValues(t *testing.T) {
	folder := t.TempDir()
	missing := filepath.Join(folder, "none.yaml")
	for _, tt := range []struct {
		name, value string
		want        string // of the error; it begins with the name
		hidden      string // must not be in it
	}{
		{"REDIS_URL", "http://redis.test", "must be like redis://", ""},
		{"REDIS_URL", "redis://:hun/ter2@redis.test:6379", "percent-encoded", "ter2"},
		{"REDIS_URL", "redis://:hunter2@redis.test:6379/first", `"redis://:***@redis.test:6379/first"`, "hunter2"},
		{"REDIS_URL", "redis://a.test:6379,,b.test:6379", "must be like redis://", ""},
		{"REDIS_URL", "redis://redis.test:6379?read_timeout=1s", "read_timeout must not be set there: REDIS_TIMEOUT", ""},
		{"REDIS_URL", "redis+sentinel://a.test/main?sentinel_password=hunter2&pool_sise=3", "unexpected option: pool_sise", "hunter2"},
		{"REDIS_URL", "", "is required with DATABASE_URL", ""},
		{"REDIS_CA_FILE", "config.go", "requires TLS: set REDIS_URL or QUEUE_REDIS_URL to a URL that begins with rediss", ""},
		{"REDIS_CERT_FILE", "config.go", "and REDIS_KEY_FILE require each other", ""},
		{"REDIS_TIMEOUT", "10ms", "must be a duration from 20ms to 1s, such as 60ms, got", ""},
		{"REDIS_TIMEOUT", "1001ms", "must be a duration from 20ms to 1s", ""},
		{"REDIS_TIMEOUT", "-100ms", "must be a duration from 20ms to 1s", ""},
		{"REDIS_TIMEOUT", "100", "must be a duration from 20ms to 1s", ""},
		{"DATABASE_URL", "", "is required with REDIS_URL", ""},
		{"DATABASE_URL", "host=pg.test password=hunter2", "must be like postgres://", "hunter2"},
		{"DATABASE_URL", "postgres://u:hun/ter2@pg.test/db", "percent-encoded", "ter2"},
		{"DATABASE_URL", "postgres://u:hun ter2@pg.test/db", "postgres://", "ter2"},
		{"DATABASE_URL", "postgres://u:hunter2@pg.test/db?sslmode=perhaps", "sslmode is invalid", "hunter2"},
		{"QUEUE_REDIS_URL", "amqp://mq.test", "must be like redis://", ""},
		{"MIGRATE", "perhaps", `must be true or false, got "perhaps"`, ""},
		{"LISTEN", "8080", `must be host:port or :port, such as 127.0.0.1:8080, got "8080"`, ""},
		{"LISTEN", ":http", "must be host:port", ""},
		{"LISTEN", ":70000", "must be host:port", ""},
		{"INTERNAL_LISTEN", "localhost", "must be host:port", ""},
		{"INTERNAL_LISTEN", ":8081", "set INTERNAL_TOKEN or TOKENS_FILE", ""},
		{"INTERNAL_LISTEN", "10.0.0.1:8081", "set INTERNAL_TOKEN or TOKENS_FILE", ""},
		{"WORKER_LISTEN", "::1:8082", "must be host:port", ""},
		{"IDENTITY", "cookie", `must be jwt or header, got "cookie"`, ""},
		{"IDENTITY", "", "is required: jwt", ""},
		{"IDENTITY", "jwt", "JWT_JWKS_FILE", ""},
		{"CAPTCHA", "friendly", `must be altcha or turnstile or hcaptcha or recaptcha, got "friendly"`, ""},
		{"CAPTCHA_SITE_KEY", "key", "must not be set with CAPTCHA=altcha", ""},
		{"CAPTCHA_SECRET", "hunter2", "must not be set with CAPTCHA=altcha", "hunter2"},
		{"JWT_SECRET", strings.Repeat("hunter2", 5), "must not both be set", "hunter2"},
		{"JWT_SECRET", "hunter2", "must have at least 32 characters (openssl rand -hex 32 makes one), got 7", "hunter2"},
		{"JWT_JWKS_FILE", missing, "must be a readable file", ""},
		{"JWT_JWKS_URL", "http://id.test/keys", `must be a URL with https, or with http of this machine, such as https://`, ""},
		{"JWT_JWKS_URL", "http://127.0.0.1.id.test/keys", `got "http://127.0.0.1.id.test/keys"`, ""},
		{"JWT_JWKS_URL", "file:///etc/passwd", "must be a URL with https", ""},
		{"JWT_JWKS_URL", "https:///keys", "must be a URL with https", ""},
		{"JWT_JWKS_URL", "https://ada:hunter2@id.test/keys", "must be a URL without a password", "hunter2"},
		{"JWT_JWKS_URL", "https://id.test/keys", "must not both be set", ""},
		{"TRUSTED_PROXIES", "10.0.0.0/8, proxy.test", `got "proxy.test"`, ""},
		{"TRUSTED_PROXIES", "10.0.0.0/8,0.0.0.0/0", `got "0.0.0.0/0", which contains every address`, ""},
		{"TRUSTED_PROXIES", "::/0", `got "::/0", which contains every address`, ""},
		{"TRUSTED_PROXIES", "::ffff:0:0/96", `got "::ffff:0:0/96", which contains every address`, ""},
		{"TRUSTED_PROXIES", "198.51.100.7/0", "which contains every address", ""},
		{"CORS_ORIGINS", "https://shop.test/app", `got "https://shop.test/app"`, ""},
		{"CORS_ORIGINS", "shop.test", "must be origins", ""},
		{"INTERNAL_TOKEN", "hunter2", "must have at least 16", "hunter2"},
		{"INTERNAL_TOKEN", "hunter2 hunter2 hunter2", "must not contain spaces", "hunter2"},
		{"INTERNAL_TOKEN", "hunter2hunter2hunter2", "must not both be set", "hunter2"},
		{"METRICS_TOKEN", "hunter2hunter2hunter2", "requires INTERNAL_TOKEN", "hunter2"},
		{"TOKENS_FILE", missing, "must be a readable file", ""},
		{"RULES_FILE", folder, "must be a file, got the folder", ""},
		{"SECRET", "", "is required: at least 32", ""},
		{"SECRET", "hunter2", "must have at least 32", "hunter2"},
		{"SECRET_PREVIOUS", "hunter2", "must have at least 32", "hunter2"},
		{"SECRET_PREVIOUS", good, "must differ from SECRET", good},
		{"JWT_SECRET", good, "must differ from SECRET", good},
		{"INTERNAL_TOKEN", good, "must differ from SECRET", good},
		{"SECRET", strings.Repeat("a", 40), "must not repeat a few characters", "aaa"},
		{"INTERNAL_TOKEN", strings.Repeat("ab", 10), "must not repeat a few characters", "abab"},
		{"JWT_SECRET_FILE", missing, "must be a file that contains JWT_SECRET", ""},
		{"JWT_SECRET_FILE", os.DevNull, "it is empty", ""},
		{"SECRET", "demo-only-demo-only-demo-only-demo-only", "published in Tidegate's repository", "demo-only"},
		{"SECRET_PREVIOUS", "demo-only-demo-only-demo-only-demo-only", "published in Tidegate's repository", "demo-only"},
		{"INTERNAL_TOKEN", "demo-only-operator-token", "ALLOW_DEMO_SECRETS=true", "demo-only"},
		{"REDIS_URL", "redis://:demo-only@redis.test:6379/0", "published in Tidegate's repository", "demo-only"},
		{"DATABASE_URL", "postgres://tidegate:demo-only@pg.test:5432/tidegate", "published in Tidegate's repository", "demo-only"},
		{"ALLOW_DEMO_SECRETS", "perhaps", `must be true or false, got "perhaps"`, ""},
		{"NAMESPACE", "{shop}", `must be 1 to 32 of a-z, 0-9, _ and -, starting with a letter or digit, got "{shop}"`, ""},
		{"DURABILITY", "always", `must be memory or everysec or fsync or replicated, got "always"`, ""},
		{"REPORTS", missing, "must be an existing folder", ""},
		{"HISTORY_DAYS", "-1", `must be a whole number from 0 to 36500, got "-1"`, ""},
		{"ROOM_DAYS", "-1", `must be a whole number from 0 to 36500, got "-1"`, ""},
		{"KOALA_ZONE", "Shanghai", `must be a time zone such as Asia/Shanghai, Europe/Berlin or UTC, got "Shanghai"`, ""},
		{"PASS_KEY_FILE_PREVIOUS", missing, `must be a readable file`, ""},
		{"PASS_KEY_FILE", missing, `must be a readable file`, ""},
		{"VWR_ISSUERS", "tidegate, https://op.example/a b", `must be issuers of at most 255 visible ASCII characters`, ""},
		{"KOALA_FILE", "/nowhere", `must be a readable file`, ""},
		{"HISTORY_DAYS", "a week", `must be a whole number from 0 to 36500, got "a week"`, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", `such as http://localhost:4318, got "collector:4318"`, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://", "such as http://localhost:4318", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://ada:hunter2@collector:4318", "credentials in OTEL_EXPORTER_OTLP_HEADERS", "hunter2"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "ada:hunter2@collector:4318", "credentials in OTEL_EXPORTER_OTLP_HEADERS", "hunter2"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318?token=hunter2", "credentials in OTEL_EXPORTER_OTLP_HEADERS", "hunter2"},
		{"OTEL_TRACES_SAMPLER", "sometimes", `must be always_on or always_off or traceidratio or parentbased_always_on`, ""},
		{"OTEL_TRACES_SAMPLER_ARG", "1%", `must be a number from 0 to 1, such as 0.01, got "1%"`, ""},
		{"OTEL_TRACES_SAMPLER_ARG", "1.5", "must be a number from 0 to 1", ""},
		{"OTEL_TRACES_SAMPLER_ARG", "NaN", "must be a number from 0 to 1", ""},
		{"LOG_LEVEL", "loud", "must be debug, info, warn or error", ""},
		{"LOG_FORMAT", "xml", "must be text or json", ""},
	} {
		t.Run(tt.name+"="+tt.value, func(t *testing.T) {
			vars := env(t, tt.name, tt.value)
			if tt.want == "must not both be set" {
				vars = env(t, tt.name, tt.value, "TOKENS_FILE", os.Args[0], "JWT_JWKS_FILE", os.Args[0])
			}
			c, err := API(nil, vars, io.Discard)
			if err == nil {
				t.Fatalf("accepted: %+v", c)
			}
			name := tt.name
			if name == "IDENTITY" && tt.value == "jwt" {
				name = "JWT_SECRET" // what is missing, not what asks for it
			}
			if got := err.Error(); !strings.HasPrefix(got, name+" ") || !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
				t.Errorf("error %q, want one line about %s with %q", got, name, tt.want)
			}
			if tt.hidden != "" && strings.Contains(err.Error(), tt.hidden) {
				t.Errorf("error %q shows a secret", err)
			}
		})
	}
}

func TestAllWrongValuesAtOnce(t *testing.T) {
	_, err := API(nil, env(t, "LISTEN", "x", "LOG_LEVEL", "x", "SECRET", "", "IDENTITY", ""), io.Discard)
	for _, name := range []string{"LISTEN must", "LOG_LEVEL must", "SECRET is required", "IDENTITY is required"} {
		if !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s is not in: %v", name, err)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"-nonsense":     "-h lists the flags",
		"serve":         `"serve"`,
		"-listen=x":     "LISTEN must",
		"-migrate=x":    "MIGRATE must",
		"-redis-url":    "needs an argument",
		"-log-format=x": "LOG_FORMAT must",
	} {
		if _, err := API([]string{arg}, env(t), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}

func TestHelpListsEveryVariable(t *testing.T) {
	var out bytes.Buffer
	if _, err := API([]string{"-h"}, nothing, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, s := range new(Config).settings() {
		if !strings.Contains(out.String(), "["+s.name+"]") || !strings.Contains(out.String(), "-"+s.flag()+" ") && s.fallback != "false" {
			t.Errorf("%s is not in the help", s.name)
		}
	}
}

func TestWorkerReadsOnlyItsOwn(t *testing.T) {
	vars := env(t, "IDENTITY", "", "SECRET", "", "LISTEN", "nonsense", "TOKENS_FILE", "/none")
	if _, err := Worker(nil, vars, io.Discard); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Worker(nil, env(t, "RULES_FILE", rules, "TRUSTED_PROXIES", "10.0.0.0/8"), io.Discard); err != nil || c.RulesFile != rules || len(c.TrustedProxies) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Worker(nil, nothing, io.Discard); err == nil || !strings.Contains(err.Error(), "REDIS_URL and DATABASE_URL are required") {
		t.Fatalf("without stores: %v", err)
	}
}

func TestATokenOpensTheInternalListener(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(tokens, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"INTERNAL_TOKEN": good, "TOKENS_FILE": tokens} {
		if _, err := API(nil, env(t, "SECRET", "another-"+good, "INTERNAL_LISTEN", ":8081", name, value), io.Discard); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	both := []string{"INTERNAL_TOKEN", "token-" + good, "METRICS_TOKEN", "metrics-" + good}
	if c, err := API(nil, env(t, both...), io.Discard); err != nil || string(c.MetricsToken) != both[3] {
		t.Errorf("%+v, %v", c, err)
	}
	both[3] = both[1]
	if _, err := API(nil, env(t, both...), io.Discard); err == nil || !strings.Contains(err.Error(), "METRICS_TOKEN must differ") {
		t.Errorf("one token for two: %v", err)
	}
	for _, local := range []string{"localhost:0", "[::1]:8081", "127.0.0.2:8081"} {
		if _, err := API(nil, env(t, "INTERNAL_LISTEN", local), io.Discard); err != nil {
			t.Errorf("%s: %v", local, err)
		}
	}
}

// What .env publishes is refused by both programs, and they say of each variable that holds it so.
func TestPublishedSecrets(t *testing.T) {
	vars := map[string]string{
		"SECRET": "demo-only-demo-only-demo-only-demo-only", "INTERNAL_TOKEN": "demo-only-operator-token", "METRICS_TOKEN": "demo-only-metrics-token",
		"DATABASE_URL": "postgres://tidegate:demo-only@pg.test:5432/tidegate",
	}
	get := env(t)
	all := func(name string) string { return stdcmp.Or(vars[name], get(name)) }
	_, err := API(nil, all, io.Discard)
	for name := range vars {
		if err == nil || !strings.Contains(err.Error(), name+" must not contain a secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Worker(nil, all, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "DATABASE_URL must not contain a secret") {
		t.Errorf("the worker: %v", err)
	}
	vars["ALLOW_DEMO_SECRETS"] = "true"
	c, err := API(nil, all, io.Discard)
	if err != nil || cmp.Diff(c.DemoSecrets, []string{"SECRET", "INTERNAL_TOKEN", "METRICS_TOKEN", "DATABASE_URL"}) != "" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := Worker(nil, all, io.Discard); err != nil || cmp.Diff(c.DemoSecrets, []string{"DATABASE_URL"}) != "" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := API(nil, env(t, "ALLOW_DEMO_SECRETS", "true"), io.Discard); err != nil || c.DemoSecrets != nil {
		t.Errorf("secrets of one's own: %+v, %v", c, err)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	secret := "hunter2-" + good
	vars := map[string]string{
		"SECRET": secret, "SECRET_PREVIOUS": secret + "p", "JWT_SECRET": secret + "j", "INTERNAL_TOKEN": secret + "i", "METRICS_TOKEN": secret + "m",
		"REDIS_URL": "redis://user:" + secret + "@redis.test:6379/0", "DATABASE_URL": "postgres://pg.test/db?password=" + secret,
	}
	get := env(t)
	all := func(name string) string {
		if v, ok := vars[name]; ok {
			return v
		}
		return get(name)
	}
	c, err := API(nil, all, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if string(c.Secret) != secret || string(c.Redis) != vars["REDIS_URL"] {
		t.Fatal("a conversion to string does not reveal it")
	}
	var logged bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&logged, nil))
	log.Info("started", "config", c, "secret", c.Secret, "redis", c.Redis)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("started", "config", *c, "secret", c.Secret, "redis", c.Redis)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for how, printed := range map[string]string{
		"%v": fmt.Sprintf("%v", c), "%+v": fmt.Sprintf("%+v", *c), "%#v": fmt.Sprintf("%#v", c),
		"%s": fmt.Sprintf("%s %s", c.Secret, c.Redis), "%q": fmt.Sprintf("%q %q", c.Secret, c.Database),
		"%x": fmt.Sprintf("%x", c.Secret), "json": string(asJSON), "log": logged.String(),
	} {
		if strings.Contains(printed, "hunter2") || strings.Contains(printed, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("%s shows a secret: %s", how, printed)
		}
	}
	if got := c.Redis.String(); got != "redis://user:***@redis.test:6379/0" {
		t.Errorf("redis printed as %s", got)
	}
}

// A version is printed even by a program whose settings are wrong.
func TestVersionIsAskedFor(t *testing.T) {
	for name, of := range map[string]func([]string, func(string) string, io.Writer) (*Config, error){"api": API, "worker": Worker} {
		if _, err := of([]string{"--version"}, env(t, "LISTEN", "nonsense"), io.Discard); err == nil || err.Error() != ErrVersion.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
}
