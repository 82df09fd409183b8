package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidegate/tidegate/captcha"
	"github.com/tidegate/tidegate/internal/auth"
)

// checkAPI returns errors about combinations of settings that are each valid.
func (c *Config) checkAPI(t values) []error {
	if t == nil {
		return nil
	}
	wrong := c.checkStores(t)
	embedded := !t.has("REDIS_URL") && !t.has("DATABASE_URL")

	switch {
	case !t.has("IDENTITY") && embedded && (t.has("JWT_SECRET") || t.has("JWT_JWKS_FILE") || t.has("JWT_JWKS_URL")):
		wrong = append(wrong, errors.New("IDENTITY must be jwt with JWT_SECRET, JWT_JWKS_FILE or JWT_JWKS_URL: without it users are taken "+
			"from a header, and tokens ignored"))
	case !t.has("IDENTITY") && embedded:
		c.Identity = IdentityHeader
	case !t.has("IDENTITY"):
		wrong = append(wrong, errors.New("IDENTITY is required: jwt (callers send a signed token) "+
			"or header (a proxy in TRUSTED_PROXIES, or this machine, sets X-User-ID)"))
	case c.Identity == IdentityJWT && !t.has("JWT_SECRET") && !t.has("JWT_JWKS_FILE") && !t.has("JWT_JWKS_URL"):
		wrong = append(wrong, errors.New("JWT_SECRET or JWT_JWKS_FILE or JWT_JWKS_URL is required with IDENTITY=jwt, to verify tokens"))
	}
	if !t.has("SECRET") && !embedded {
		wrong = append(wrong, errors.New("SECRET is required: at least 32 characters, the same in all processes (openssl rand -hex 32 makes "+
			"one)"))
	}
	for _, name := range []string{"DURABILITY", "REDIS_TIMEOUT", "DATABASE_MAX_CONNS"} {
		if t.has(name) && embedded {
			wrong = append(wrong, fmt.Errorf("%s requires REDIS_URL and DATABASE_URL: the embedded server uses neither; set both, or leave "+
				"%[1]s out", name))
		}
	}
	for _, pair := range [][2]string{
		{"JWT_SECRET", "JWT_JWKS_FILE"},
		{"JWT_SECRET", "JWT_JWKS_URL"},
		{"JWT_JWKS_URL", "JWT_JWKS_FILE"},
		{"INTERNAL_TOKEN", "TOKENS_FILE"},
		{"METRICS_TOKEN", "TOKENS_FILE"},
	} {
		if t.has(pair[0]) && t.has(pair[1]) {
			wrong = append(wrong, fmt.Errorf("%s and %s must not both be set", pair[0], pair[1]))
		}
	}
	if t.has("METRICS_TOKEN") && !t.has("INTERNAL_TOKEN") && !t.has("TOKENS_FILE") {
		wrong = append(wrong, errors.New("METRICS_TOKEN requires INTERNAL_TOKEN, because it can only read metrics: set both, or TOKENS_FILE"))
	}
	wrong = append(append(wrong, checkDifferent(t)...), c.checkCaptcha(t)...)
	if c.InternalListen != "" && !loopback(c.InternalListen) && !t.has("INTERNAL_TOKEN") && !t.has("TOKENS_FILE") {
		wrong = append(wrong, fmt.Errorf("INTERNAL_LISTEN must be a loopback address such as 127.0.0.1:8081 while no token is required, got %q: "+
			"change it, or set INTERNAL_TOKEN or TOKENS_FILE", c.InternalListen))
	}
	return wrong
}

// secretVariables are the variables that hold a secret, or a URL with a password. Each may be given as a file, in the variable with _FILE.
var secretVariables = []string{
	"SECRET", "SECRET_PREVIOUS", "JWT_SECRET", "INTERNAL_TOKEN", "METRICS_TOKEN", "CAPTCHA_SECRET", "REDIS_URL", "QUEUE_REDIS_URL",
	"DATABASE_URL",
}

// checkDifferent returns errors about secrets that are the same: whoever gets one for its purpose, such as the service that signs
// users' tokens, would have the rights of the other.
func checkDifferent(t values) (wrong []error) {
	for i, name := range secretVariables {
		for _, other := range secretVariables[:i] {
			if t.has(name) && t[name] == t[other] && !strings.HasSuffix(name, "_URL") {
				wrong = append(wrong, fmt.Errorf("%s must differ from %s, because whoever has the one would have the rights of the other: "+
					"make another one (openssl rand -hex 32), or leave it out", name, other))
			}
		}
	}
	return wrong
}

// checkPublished returns errors about secrets that are published in this repository.
func (c *Config) checkPublished(t values) (wrong []error) {
	for _, name := range secretVariables {
		switch {
		case !auth.IsPublished(t[name]):
		case c.AllowDemo:
			c.DemoSecrets = append(c.DemoSecrets, name)
		default:
			wrong = append(wrong, fmt.Errorf("%s must not contain a secret published in Tidegate's repository (value not shown): set your own "+
				"(openssl rand -hex 32 makes one), or set ALLOW_DEMO_SECRETS=true where only you can reach the programs", name))
		}
	}
	return wrong
}

// checkCaptcha returns errors about missing settings of a third-party provider, and about settings that no provider uses.
func (c *Config) checkCaptcha(t values) (wrong []error) {
	if c.Captcha == "" { // its own error has been reported
		return nil
	}
	for _, name := range []string{"CAPTCHA_SITE_KEY", "CAPTCHA_SECRET", "CAPTCHA_HOSTNAMES"} {
		switch {
		case c.Captcha == captcha.Own && t.has(name):
			wrong = append(wrong, fmt.Errorf("%s must not be set with CAPTCHA=altcha: set CAPTCHA to %s, or leave it out", name, captchas))
		case c.Captcha != captcha.Own && !t.has(name):
			wrong = append(wrong, fmt.Errorf("%s is required with CAPTCHA=%s", name, c.Captcha))
		}
	}
	return wrong
}

func (c *Config) checkWorker(t values) []error {
	if t == nil {
		return nil
	}
	if !t.has("REDIS_URL") && !t.has("DATABASE_URL") {
		return []error{errors.New("REDIS_URL and DATABASE_URL are required; " +
			"without them run only the API (cmd/api), which is then the embedded server and includes a worker")}
	}
	return c.checkStores(t)
}

func (c *Config) checkStores(t values) []error {
	if c.Queue == "" {
		c.Queue = c.Redis
	}
	for _, pair := range [][2]string{{"REDIS_URL", "DATABASE_URL"}, {"DATABASE_URL", "REDIS_URL"}} {
		if t.has(pair[0]) && !t.has(pair[1]) {
			return []error{fmt.Errorf("%s is required with %s: set both, or neither for the embedded server", pair[1], pair[0])}
		}
	}
	if t.has("QUEUE_REDIS_URL") && !t.has("REDIS_URL") {
		return []error{errors.New("QUEUE_REDIS_URL requires REDIS_URL and DATABASE_URL: set all three, or none")}
	}
	if t.has("REDIS_CERT_FILE") != t.has("REDIS_KEY_FILE") {
		return []error{errors.New("REDIS_CERT_FILE and REDIS_KEY_FILE require each other: set both, or none")}
	}
	for _, name := range []string{"REDIS_CA_FILE", "REDIS_CERT_FILE"} {
		if t.has(name) && !strings.HasPrefix(string(c.Redis), "rediss") && !strings.HasPrefix(string(c.Queue), "rediss") {
			return []error{fmt.Errorf("%s requires TLS: set REDIS_URL or QUEUE_REDIS_URL to a URL that begins with rediss, or leave it out", name)}
		}
	}
	return nil
}
