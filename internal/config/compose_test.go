package config

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tidegate/tidegate/captcha"
)

// Settings in .env, or in the environment of docker compose, reach the programs that read them.
func TestContainers(t *testing.T) {
	source, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct{ Environment map[string]string }
	}
	if err := yaml.Unmarshal(source, &file); err != nil {
		t.Fatal(err)
	}
	dotenv, err := os.ReadFile("../../.env")
	if err != nil {
		t.Fatal(err)
	}
	environment := func(service string, more map[string]string) func(string) string {
		set := map[string]string{}
		for line := range strings.Lines(string(dotenv)) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
				set[name] = value
			}
		}
		return func(name string) string {
			return os.Expand(file.Services[service].Environment[name], func(of string) string {
				of, fallback, _ := strings.Cut(of, ":")
				return cmp.Or(more[of], set[of], strings.TrimPrefix(fallback, "-"))
			})
		}
	}

	if _, err := Worker(nil, environment("worker", nil), os.Stderr); err != nil {
		t.Error(err)
	}
	if c, err := API(nil, environment("api", nil), os.Stderr); err != nil || c.Captcha != captcha.Own || c.HistoryDays != 90 {
		t.Errorf("%+v %v", c, err)
	}
	more := map[string]string{
		"CAPTCHA": "turnstile", "CAPTCHA_SITE_KEY": "site", "CAPTCHA_SECRET": "secret", "CAPTCHA_HOSTNAMES": "shop.example",
		"HISTORY_DAYS": "7", "SECRET_PREVIOUS": "the-previous-secret-of-the-tests-of-tidegate", "RULES_FILE": "../../admission/rules/default.yaml",
		"IDENTITY": "jwt", "JWT_JWKS_URL": "https://id.example/keys", "JWT_ISSUER": "https://id.example", "JWT_AUDIENCE": "tidegate",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01",
	}
	api, err := API(nil, environment("api", more), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if api.Captcha != "turnstile" || api.CaptchaSiteKey != "site" || api.CaptchaSecret != "secret" || !slices.Equal(api.CaptchaHostnames, []string{"shop.example"}) || api.HistoryDays != 7 || string(api.PreviousSecret) != more["SECRET_PREVIOUS"] {
		t.Errorf("%+v", api)
	}
	if api.Identity != IdentityJWT || api.JWKSURL != "https://id.example/keys" || api.JWTIssuer != "https://id.example" || api.JWTAudience != "tidegate" {
		t.Errorf("%+v", api)
	}
	worker, err := Worker(nil, environment("worker", more), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{api, worker} {
		if c.TracesEndpoint != "http://collector:4318" || c.TracesSampler != "parentbased_traceidratio" || c.TracesShare != 0.01 {
			t.Errorf("traces go to %q by %s %v", c.TracesEndpoint, c.TracesSampler, c.TracesShare)
		}
	}
	if api.RulesFile == "" || worker.RulesFile != api.RulesFile || len(api.TrustedProxies) == 0 || !slices.Equal(worker.TrustedProxies, api.TrustedProxies) {
		t.Errorf("the worker has %q, %v; the api %q, %v", worker.RulesFile, worker.TrustedProxies, api.RulesFile, api.TrustedProxies)
	}
}
