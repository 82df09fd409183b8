// Package gateways_test checks the recipe of docs/gateways.md for Envoy without Envoy: it decodes the configuration strictly into Envoy's
// own types, sends the requests that Envoy makes of it to a real Tidegate, and filters the answers as Envoy does. The other gateways run
// for real in cmd/api.
package gateways_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authz "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcher "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embedded"
	"github.com/tidegate/tidegate/internal/serve/servetest"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

const (
	token = "a-token-that-only-gateways-have"
	rules = `
version: 1
lists: {keys: {values: [key-of-acme]}}
rules:
  - {name: gold, match: {plan: gold}, algorithm: direct, action: allow}
  - {name: strangers, match: {route: "/api/**", api-key: {not: {list: keys}}}, algorithm: direct, action: deny}
  - {name: guests, match: {route: "/shop/**", method: GET}, subject: [ip], limit: 2, window: 1h}
`
)

// recipe decodes the filter. A name or a value that Envoy does not have is an error.
func recipe(t *testing.T) *authz.ExtAuthz {
	t.Helper()
	text, err := os.ReadFile("../../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(http_filters:.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("no recipe")
	}
	var file struct {
		Filters []json.RawMessage `json:"http_filters"`
	}
	if err := yaml.UnmarshalStrict(block[1], &file); err != nil {
		t.Fatal(err)
	}
	var filter manager.HttpFilter
	if len(file.Filters) != 1 {
		t.Fatalf("%d filters", len(file.Filters))
	}
	if err := protojson.Unmarshal(file.Filters[0], &filter); err != nil {
		t.Fatal(err)
	}
	message, err := filter.GetTypedConfig().UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	f := message.(*authz.ExtAuthz)
	if err := f.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return f
}

// check returns the request that Envoy makes for one of a client (source/extensions/filters/common/ext_authz/ext_authz_http_impl.cc): the
// client's method, host, path behind the prefix and Authorization, none of its other headers, and those that the filter adds.
func check(t *testing.T, f *authz.ExtAuthz, at string, from string, client *http.Request) *http.Request {
	t.Helper()
	service := f.GetHttpService()
	if f.GetAllowedHeaders() != nil || f.GetWithRequestBody() != nil {
		t.Fatal("the recipe sends more than this test knows")
	}
	req, err := http.NewRequestWithContext(t.Context(), client.Method, at+service.GetPathPrefix()+client.URL.RequestURI(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = client.Host
	if a := client.Header.Get("Authorization"); a != "" {
		req.Header.Set("Authorization", a)
	}
	for _, h := range service.GetAuthorizationRequest().GetHeadersToAdd() {
		value := regexp.MustCompile(`%[^%]+%`).ReplaceAllStringFunc(h.GetValue(), func(command string) string {
			name, isHeader := strings.CutPrefix(command, "%REQ(")
			switch {
			case command == "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%":
				return from
			case isHeader:
				return client.Header.Get(strings.TrimSuffix(name, ")%"))
			}
			t.Fatalf("this test does not know %s", command)
			return ""
		})
		value = strings.ReplaceAll(value, "demo-only-gateway-token", token)
		if value != "" { // Envoy adds no empty header
			req.Header.Set(h.GetKey(), value)
		}
	}
	return req
}

func allowed(l *matcher.ListStringMatcher, name string) bool {
	for _, p := range l.GetPatterns() {
		if p.GetExact() == strings.ToLower(name) { // as Envoy writes names
			return true
		}
	}
	return false
}

func TestEnvoy(t *testing.T) {
	f := recipe(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{
		"RULES_FILE": file, "INTERNAL_TOKEN": token, "TRUSTED_PROXIES": "127.0.0.1", "TIDEGATE_DATA": filepath.Join(dir, "data"),
		"LISTEN": "127.0.0.1:0", "INTERNAL_LISTEN": "127.0.0.1:0", "LOG_FORMAT": "json",
	}
	api := servetest.Start(t, func(ctx context.Context, stderr io.Writer) error {
		cfg, err := config.API(nil, func(name string) string { return vars[name] }, stderr)
		if err != nil {
			return err
		}
		return embedded.Run(ctx, cfg, cfg.Logger(stderr), func(embedded.Place) {})
	})
	servetest.Until(t, http.StatusOK, func() servetest.Answer { return servetest.Call("GET", api.URL("internal")+"/readyz", "") })

	ask := func(from, method, path string, headers ...string) *http.Response {
		t.Helper()
		client, err := http.NewRequestWithContext(t.Context(), method, "http://shop.example.com"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			client.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(check(t, f, api.URL("internal"), from, client))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	response := f.GetHttpService().GetAuthorizationResponse()
	for range 2 {
		resp := ask("198.51.100.7", "GET", "/shop/shoes?page=2", "X-Forwarded-For", "203.0.113.9", "X-User-ID", "mallory", "X-Tidegate-Attribute-Plan", "gold")
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s", resp.Status)
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
			if resp.Header.Get(name) == "" || !allowed(response.GetAllowedClientHeadersOnSuccess(), name) {
				t.Errorf("an admitted client does not get %s", name)
			}
		}
	}
	refused := ask("198.51.100.7", "GET", "/shop/shoes")
	if refused.StatusCode != http.StatusTooManyRequests {
		t.Errorf("over the limit: %s", refused.Status)
	}
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "Cache-Control", "Content-Type"} {
		if refused.Header.Get(name) == "" || !allowed(response.GetAllowedClientHeaders(), name) {
			t.Errorf("a refused client does not get %s", name)
		}
	}
	for _, test := range []struct {
		what, from, method, path string
		headers                  []string
		want                     int
	}{
		{"another address", "198.51.100.8", "GET", "/shop/shoes", nil, 200},
		{"another method", "198.51.100.7", "POST", "/shop/shoes", nil, 200},
		{"a login of the shop", "198.51.100.8", "GET", "/shop/shoes", []string{"Authorization", "Bearer of-the-shop"}, 200},
		{"a key", "198.51.100.7", "GET", "/api/stock", []string{"X-Api-Key", "key-of-acme"}, 200},
		{"no key", "198.51.100.7", "GET", "/api/stock", nil, 403},
		{"a guessed key", "198.51.100.7", "GET", "/api/stock", []string{"X-Api-Key", "guessed"}, 403},
		{"an attribute of the client's", "198.51.100.7", "GET", "/api/stock", []string{"X-Tidegate-Attribute-Api-Key", "key-of-acme"}, 403},
	} {
		if got := ask(test.from, test.method, test.path, test.headers...).StatusCode; got != test.want {
			t.Errorf("%s: %d, want %d", test.what, got, test.want)
		}
	}
}

// Envoy answers 503 while Tidegate is away, as the page says.
func TestEnvoyWithoutTidegate(t *testing.T) {
	f := recipe(t)
	if f.GetFailureModeAllow() || f.GetStatusOnError().GetCode() != http.StatusServiceUnavailable || f.GetHttpService().GetServerUri().GetTimeout().AsDuration().Milliseconds() != 500 {
		t.Errorf("%v", f)
	}
}
