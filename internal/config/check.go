package config

import (
	"errors"
	"fmt"

	"github.com/tidegate/tidegate/internal/published"
)

// checkAPI returns errors about combinations of settings that are each valid.
func (c *Config) checkAPI(t told) []error {
	if t == nil {
		return nil
	}
	wrong := c.checkStores(t)
	embedded := !t.has("REDIS_URL") && !t.has("DATABASE_URL")

	switch {
	case !t.has("IDENTITY") && embedded:
		c.Identity = IdentityHeader
	case !t.has("IDENTITY"):
		wrong = append(wrong, errors.New("IDENTITY: is not set, and must be jwt (callers bring a signed token) "+
			"or header (a proxy in TRUSTED_PROXIES, or this machine, sets X-User-ID)"))
	case c.Identity == IdentityJWT && !t.has("JWT_SECRET") && !t.has("JWT_JWKS_FILE"):
		wrong = append(wrong, errors.New("JWT_SECRET: is not set, nor is JWT_JWKS_FILE; IDENTITY=jwt checks tokens with one of them"))
	}
	if !t.has("SECRET") && !embedded {
		wrong = append(wrong, errors.New("SECRET: is not set, and must have at least 32 characters, "+
			"the same in all processes: openssl rand -hex 32 makes one"))
	}
	if t.has("SECRET_PREVIOUS") && t["SECRET_PREVIOUS"] == t["SECRET"] {
		wrong = append(wrong, errors.New("SECRET_PREVIOUS: is the same as SECRET; it must be the other one while SECRET is changed, or left out"))
	}
	if t.has("DURABILITY") && embedded {
		wrong = append(wrong, errors.New("DURABILITY: is set, and the embedded server has no Redis to ask for it; set REDIS_URL and DATABASE_URL, or leave it out"))
	}
	for _, pair := range [][2]string{{"JWT_SECRET", "JWT_JWKS_FILE"}, {"INTERNAL_TOKEN", "TOKENS_FILE"}, {"METRICS_TOKEN", "TOKENS_FILE"}} {
		if t.has(pair[0]) && t.has(pair[1]) {
			wrong = append(wrong, fmt.Errorf("%s: is set while %s is; set one of them", pair[0], pair[1]))
		}
	}
	switch {
	case t.has("METRICS_TOKEN") && !t.has("INTERNAL_TOKEN") && !t.has("TOKENS_FILE"):
		wrong = append(wrong, errors.New("METRICS_TOKEN: is set, and INTERNAL_TOKEN is not: nobody could do anything else; set both, or TOKENS_FILE"))
	case t.has("METRICS_TOKEN") && c.MetricsToken == c.InternalToken:
		wrong = append(wrong, errors.New("METRICS_TOKEN: is the same as INTERNAL_TOKEN; it must be another, which may do less"))
	}
	wrong = append(wrong, c.checkCaptcha(t)...)
	if c.InternalListen != "" && !loopback(c.InternalListen) && !t.has("INTERNAL_TOKEN") && !t.has("TOKENS_FILE") {
		wrong = append(wrong, fmt.Errorf("INTERNAL_LISTEN: is %q, which other machines reach, and nobody needs a token there: "+
			"set INTERNAL_TOKEN or TOKENS_FILE, or listen on 127.0.0.1", c.InternalListen))
	}
	return wrong
}

// secretVariables are the variables that hold a secret, or a URL with a password.
var secretVariables = []string{
	"SECRET", "SECRET_PREVIOUS", "JWT_SECRET", "INTERNAL_TOKEN", "METRICS_TOKEN", "CAPTCHA_SECRET", "REDIS_URL", "QUEUE_REDIS_URL", "DATABASE_URL",
}

// checkPublished returns errors about secrets that are published in this repository.
func (c *Config) checkPublished(t told) (wrong []error) {
	for _, name := range secretVariables {
		switch {
		case !published.Is(t[name]):
		case c.AllowDemo:
			c.DemoSecrets = append(c.DemoSecrets, name)
		default:
			wrong = append(wrong, fmt.Errorf("%s: holds a secret (not shown) that Tidegate's repository publishes, so that anybody may use it; set one of your own "+
				"(openssl rand -hex 32), or ALLOW_DEMO_SECRETS=true where nobody else can reach the programs", name))
		}
	}
	return wrong
}

// checkCaptcha returns errors about missing settings of a third-party provider, and about settings that no provider uses.
func (c *Config) checkCaptcha(t told) (wrong []error) {
	if c.Captcha == "" { // its own error has been reported
		return nil
	}
	for _, name := range []string{"CAPTCHA_SITE_KEY", "CAPTCHA_SECRET", "CAPTCHA_HOSTNAMES"} {
		switch {
		case c.Captcha == CaptchaOwn && t.has(name):
			wrong = append(wrong, fmt.Errorf("%s: is set, and CAPTCHA is altcha, which takes none; set CAPTCHA to turnstile, hcaptcha or recaptcha, or leave it out", name))
		case c.Captcha != CaptchaOwn && !t.has(name):
			wrong = append(wrong, fmt.Errorf("%s: is not set, and CAPTCHA=%s needs it", name, c.Captcha))
		}
	}
	return wrong
}

func (c *Config) checkWorker(t told) []error {
	if t == nil {
		return nil
	}
	if !t.has("REDIS_URL") && !t.has("DATABASE_URL") {
		return []error{errors.New("REDIS_URL, DATABASE_URL: are not set, and the worker needs both; " +
			"the embedded server (cmd/api without them) has its worker inside")}
	}
	return c.checkStores(t)
}

func (c *Config) checkStores(t told) []error {
	if c.Queue == "" {
		c.Queue = c.Redis
	}
	for _, pair := range [][2]string{{"REDIS_URL", "DATABASE_URL"}, {"DATABASE_URL", "REDIS_URL"}} {
		if t.has(pair[0]) && !t.has(pair[1]) {
			return []error{fmt.Errorf("%s: is not set while %s is; set both, or neither for the embedded server", pair[1], pair[0])}
		}
	}
	if t.has("QUEUE_REDIS_URL") && !t.has("REDIS_URL") {
		return []error{errors.New("QUEUE_REDIS_URL: is set while REDIS_URL is not; set REDIS_URL and DATABASE_URL as well, or none of them")}
	}
	return nil
}
